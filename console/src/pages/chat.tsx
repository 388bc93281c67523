/** Chat: talk to the agent, answer its questions, see what it makes. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import * as hub from "../api/hub";
import type { Part } from "../api/types";
import { word } from "../fold";
import { Asked } from "../forms/asked";
import { bytes, stateWord, t } from "../i18n";
import { ArtifactView, PartView } from "../render/parts";
import { chatPlace, choose, go, me, onChange, query, rpcOf, useTitle } from "../state";
import { draftOf, keepDraft } from "../ui/drafts";
import { Link, State, Trouble } from "../ui/elements";
import { visible } from "../ui/text";
import { compose, composedOf, EMPTY } from "./composed";
import { Conversation, isRunning, isWaiting, saidIn, type Turn } from "./conversation";

const kept = new Map<string, Conversation>();

/** Whom we talk to: the agent, or at a hub the one the address names. */
interface Partner {
  agent: string; // empty: the agent of this server
  rpc: string;
  name: string;
  description: string;
  skills: { id: string; name: string; examples?: string[] }[];
}

function begin(rpc: string): Conversation {
  kept.get(rpc)?.leave();
  const fresh = new Conversation(rpc);
  kept.set(rpc, fresh);
  return fresh;
}

export default function Chat() {
  const info = me.value!;
  const named = query.value.get("agent") ?? "";
  const isServed = info.agents.includes(named);
  const own: Partner = { agent: isServed ? named : "", rpc: info.rpc, ...info.card };
  const [other, setOther] = useState<Partner | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () => {
    setOther(null);
    setError(null);
    if (!named) return;
    if (isServed) {
      if (named !== info.card.name) choose(named).catch(setError);
      return;
    }
    hub
      .agent(named)
      .then((entry) =>
        setOther({
          agent: named,
          rpc: rpcOf(named),
          name: entry.name,
          description: entry.description,
          skills: entry.skills ?? [],
        }),
      )
      .catch(setError);
  };
  useEffect(load, [named]);
  if (error !== null) return <Trouble error={error} onRetry={load} />;
  const isOwn = !named || (isServed && named === info.card.name);
  const partner = isOwn ? own : other;
  return partner ? <Talk key={partner.rpc} partner={partner} /> : <p>{t("common.loading")}</p>;
}

type Send = (parts: Part[], skill: string) => void;

function Talk({ partner }: { partner: Partner }) {
  const isResumed = useRef(!kept.has(partner.rpc)); // the page was loaded: what was talked about before has to be read
  const [talk, setTalk] = useState(() => kept.get(partner.rpc) ?? begin(partner.rpc));
  const [error, setError] = useState<unknown>(null);
  const list = useRef<HTMLDivElement>(null);
  const follow = useFollow(list);
  const asked = query.value.get("task") ?? "";
  const context = query.value.get("context") ?? "";
  useTitle(partner.agent);
  const turns = talk.turns.value;
  const last = talk.last;
  const taskId = last?.task?.id ?? "";

  const lastKey = `talk.${partner.rpc}`;

  const load = (where: { task?: string; context?: string }) => {
    const fresh = begin(partner.rpc);
    setTalk(fresh);
    setError(null);
    void fresh.load(where).catch(setError);
  };
  useEffect(() => {
    const isHere = asked ? turns.some((turn) => turn.task?.id === asked) : context === talk.contextId;
    const last = isResumed.current ? draftOf(lastKey) : "";
    isResumed.current = false;
    if (query.value.has("new")) renew();
    else if ((asked || context) && !isHere) load({ task: asked, context });
    else if (!asked && !context && last) load(JSON.parse(last) as { task?: string; context?: string });
  }, [asked, context]);

  useEffect(() => {
    const where: Record<string, string> = taskId ? { task: taskId } : { context: talk.contextId };
    const isThere = taskId ? taskId === asked : talk.contextId === context;
    if (!turns.length) return;
    keepDraft(lastKey, JSON.stringify(where));
    if (!isThere) go(chatPlace(), { agent: partner.agent, ...where }, true);
  }, [taskId, talk.contextId]);

  // Somebody else may answer a question that waits here.
  useEffect(
    () =>
      onChange((news) => {
        for (const task of news.tasks ?? []) void talk.refresh(task.id).catch(() => undefined);
      }),
    [talk],
  );

  const renew = () => {
    setTalk(begin(partner.rpc));
    setError(null);
    keepDraft(lastKey, "");
    go(chatPlace(), { agent: partner.agent }, true);
  };

  const send: Send = (parts, skill) => {
    setError(null);
    follow.start();
    void talk.send(parts, skill, undefined, isWaiting(last) ? last : undefined).catch(setError);
  };

  return (
    <div class="chat">
      <div ref={list}>
        <div class="row">
          <h1 class="grow">{visible(partner.name)}</h1>
          {taskId && (
            <Link to={`tasks/${encodeURIComponent(taskId)}`} query={taskQuery(partner)} class="button">
              {t("chat.timeline")}
            </Link>
          )}
          <button type="button" onClick={renew}>
            {t("chat.new")}
          </button>
        </div>
        <p class="soft">{visible(partner.description)}</p>
        {!turns.length && <Examples skills={partner.skills} onSend={(text, skill) => send([{ text }], skill)} />}
        {turns.map((turn) => (
          <TurnView key={turn.key} partner={partner} turn={turn} talk={talk} isLast={turn === last} />
        ))}
        {error !== null && <Trouble error={error} onRetry={asked || context ? () => load({ task: asked, context }) : undefined} />}
      </div>
      {!follow.isNear && (
        <button type="button" class="newest" onClick={follow.start}>
          {t("chat.newest")}
        </button>
      )}
      <Composer partner={partner} send={send} isAnswer={isWaiting(last)} />
      <Announcer turn={last} />
    </div>
  );
}

const NEAR = 120; // pixels from the end that still count as there

/** Keep the end of what grows in sight, until somebody scrolls away from it. */
function useFollow(list: RefObject<HTMLElement | null>): { isNear: boolean; start: () => void } {
  const [isNear, setNear] = useState(true);
  const near = useRef(true);
  const set = (now: boolean) => {
    near.current = now;
    setNear(now);
  };
  const end = () => scrollTo(0, document.documentElement.scrollHeight);
  useEffect(() => {
    let top = scrollY;
    const onScroll = () => {
      const below = document.documentElement.scrollHeight - innerHeight - scrollY;
      // Growing moves nothing: who goes up has scrolled, be it a little, and is not to be pulled back.
      if (scrollY < top && below > 2) set(false);
      else if (below < NEAR) set(true);
      top = scrollY;
    };
    const grown = new ResizeObserver(() => near.current && end());
    grown.observe(list.current!);
    addEventListener("scroll", onScroll, { passive: true });
    return () => {
      grown.disconnect();
      removeEventListener("scroll", onScroll);
    };
  }, []);
  const start = () => {
    set(true);
    end();
  };
  return { isNear, start };
}

/** Tasks are found by who called whom: here the page itself. */
function taskQuery(partner: Partner): Record<string, string> {
  const info = me.value!;
  return { caller: info.caller, agent: partner.agent || (info.agents.length ? info.card.name : "") };
}

function Examples({ skills, onSend }: { skills: Partner["skills"]; onSend: (text: string, skill: string) => void }) {
  const examples = skills.flatMap((skill) =>
    (skill.examples ?? []).map((text) => ({ text, skill: skill.id })),
  );
  if (!examples.length) return null; // a skill's name is nothing to send to it
  return (
    <div>
      <p>{t("chat.empty")}</p>
      <div class="row">
        {examples.slice(0, 6).map((example) => (
          <button type="button" key={example.skill + example.text} onClick={() => onSend(example.text, example.skill)}>
            {visible(example.text)}
          </button>
        ))}
      </div>
    </div>
  );
}

function TurnView(props: { partner: Partner; turn: Turn; talk: Conversation; isLast: boolean }) {
  const { partner, turn, talk } = props;
  const name = visible(partner.name);
  const task = turn.task;
  const at = task ? { id: task.id, tenant: "", caller: "", ...taskQuery(partner) } : undefined;
  const state = task ? word(task.status.state) : "";
  const isAsking = isWaiting(turn) && !turn.isSending;
  const artifacts = new Map((task?.artifacts ?? []).map((one) => [one.artifactId, one]));
  return (
    <article data-turn={turn.key}>
      {saidIn(turn).map(({ message, artifact }) =>
        message ? (
          <Bubble key={message.messageId} name={name} parts={message.parts} isUsers={message.role === "ROLE_USER"} />
        ) : (
          <ArtifactView key={`artifact ${artifact}`} artifact={artifacts.get(artifact!)!} at={at} />
        ),
      )}
      {turn.reply && <Bubble name={name} parts={turn.reply.parts} isUsers={false} />}
      {task && !isAsking && (
        <p class="row">
          <State word={turn.isSending && isWaiting(turn) ? "working" : state} />
          {task.status.message && !isWaiting(turn) && (
            <span class="soft">{visible(task.status.message.parts.map((part) => part.text ?? "").join(" "))}</span>
          )}
          {isRunning(turn) && (
            <button type="button" class="quiet" data-stops={task.id} onClick={() => void talk.cancel(turn).catch(() => undefined)}>
              {t("chat.stop")}
            </button>
          )}
        </p>
      )}
      {task && isAsking && (
        <section class="question" aria-label={t("chat.asks", { name })}>
          <p class="row">
            <State word={state} />
            <span>{t("chat.asks", { name })}</span>
          </p>
          <Asked
            task={task}
            takesFocus={props.isLast}
            onAnswer={(parts, json) => talk.send(parts, "", json, turn)}
            onCancel={() => talk.cancel(turn)}
          />
        </section>
      )}
      {turn.lostAt && (
        <p class="lost" role="status">
          {t("chat.lost", { event: turn.lostAt })}
        </p>
      )}
      {turn.error && <Trouble error={turn.error} onRetry={() => void talk.retry(turn)} />}
    </article>
  );
}

function Bubble({ name, parts, isUsers }: { name: string; parts: Part[]; isUsers: boolean }) {
  return (
    <div class={isUsers ? "bubble you" : "bubble"}>
      <strong>{isUsers ? t("chat.you") : name}</strong>
      {parts
        .filter((part) => part.mediaType !== "application/schema+json")
        .map((part, i) => (
          <PartView key={i} part={part} isUsers={isUsers} />
        ))}
    </div>
  );
}

function Composer({ partner, send, isAnswer }: { partner: Partner; send: Send; isAnswer: boolean }) {
  const info = me.value!;
  const [composed, setComposed] = useState(() => composedOf(partner.name));
  const [trouble, setTrouble] = useState("");
  const picker = useRef<HTMLInputElement>(null);
  const { text, skill, attached } = composed;
  const change = (more: Partial<typeof composed>) =>
    setComposed((now) => {
      const next = { ...now, ...more };
      compose(partner.name, next);
      return next;
    });

  const add = async (chosen: Iterable<File>) => {
    const good: Part[] = [];
    for (const file of chosen) {
      if (file.size * 1.4 > info.limits.body) {
        setTrouble(t("chat.toolarge", { name: visible(file.name), limit: bytes(info.limits.body / 1.4) }));
      } else good.push(await partOf(file));
    }
    if (good.length) change({ attached: [...composedOf(partner.name).attached, ...good] });
  };

  const submit = () => {
    if (!text.trim() && !attached.length) return;
    send([...(text.trim() ? [{ text }] : []), ...attached], skill);
    change({ ...EMPTY, skill });
    setTrouble("");
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        submit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        void add(event.dataTransfer?.files ?? []);
      }}
      onPaste={(event) => void add(event.clipboardData?.files ?? [])}
    >
      <label class="hidden" for="composer">
        {isAnswer ? t("chat.answer.to", { name: partner.name }) : t("chat.placeholder", { name: partner.name })}
      </label>
      <textarea
        id="composer"
        rows={2}
        value={text}
        placeholder={isAnswer ? t("chat.answer.to", { name: partner.name }) : t("chat.placeholder", { name: partner.name })}
        onInput={(event) => change({ text: event.currentTarget.value })}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            submit();
          }
        }}
      />
      <div class="row">
        <input
          ref={picker}
          type="file"
          multiple
          class="hidden"
          tabIndex={-1}
          aria-label={t("chat.attach")}
          onChange={(event) => {
            void add([...(event.currentTarget.files ?? [])]);
            event.currentTarget.value = ""; // the same file may be chosen again
          }}
        />
        <button type="button" onClick={() => picker.current?.click()}>
          {t("chat.attach")}
        </button>
        {partner.skills.length > 1 && (
          <label>
            {t("chat.skill")}{" "}
            <select value={skill} onChange={(event) => change({ skill: event.currentTarget.value })}>
              <option value="">{t("chat.skill.any")}</option>
              {partner.skills.map((one) => (
                <option key={one.id} value={one.id}>
                  {visible(one.name)}
                </option>
              ))}
            </select>
          </label>
        )}
        {attached.map((part, i) => (
          <button type="button" key={i} data-attached onClick={() => change({ attached: attached.filter((_, at) => at !== i) })}>
            {t("chat.remove", { name: nameOf(part) })}
          </button>
        ))}
        <span class="grow" />
        <button type="submit" class="primary">
          {isAnswer ? t("chat.answer") : t("chat.send")}
        </button>
      </div>
      {trouble && (
        <p class="bad" role="alert">
          {trouble}
        </p>
      )}
    </form>
  );
}

function nameOf(part: Part): string {
  if (part.data !== undefined) return JSON.stringify(part.data).slice(0, 40);
  return visible(part.filename || part.url || part.text?.slice(0, 40) || part.mediaType || "");
}

async function partOf(file: File): Promise<Part> {
  const buffer = new Uint8Array(await file.arrayBuffer());
  let binary = "";
  for (let i = 0; i < buffer.length; i += 0x8000) {
    binary += String.fromCharCode(...buffer.subarray(i, i + 0x8000));
  }
  return { raw: btoa(binary), filename: file.name, mediaType: file.type || "application/octet-stream" };
}

/** Says to screen readers what happens, not every word of it. */
function Announcer({ turn }: { turn: Turn | undefined }) {
  const state = turn?.task ? word(turn.task.status.state) : "";
  const text =
    state === "working" || state === "submitted"
      ? t("chat.announce.working")
      : state === "input-required"
        ? t("chat.announce.asks")
        : state
          ? t("chat.announce.ended", { state: stateWord(state) })
          : "";
  return (
    <div class="hidden" role="status" data-announced={state}>
      {text}
    </div>
  );
}
