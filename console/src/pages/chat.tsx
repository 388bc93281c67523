/** Chat: talk to the agent, answer its questions, see what it makes. */

import type { RefObject } from "preact";
import { useEffect, useRef, useState } from "preact/hooks";
import { INLINE, upload } from "../api/files";
import * as hub from "../api/hub";
import type { Part } from "../api/types";
import { word } from "../fold";
import { Asked } from "../forms/asked";
import { bytes, stateWord, t } from "../i18n";
import { ArtifactView, PartView } from "../render/parts";
import { choose, go, me, onChange, query, rpcOf, useTitle } from "../state";
import { draftOf, keepDraft } from "../ui/drafts";
import { Dialog, Link, Skeleton, State, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { ProgressBar, progressOf } from "../ui/time";
import { compose, composedOf, EMPTY } from "./composed";
import { Conversation, isRunning, isWaiting, saidIn, type Turn } from "./conversation";
import { Talks } from "./talks";

const kept = new Map<string, Conversation>();

/** Whom we talk to: the agent, or at a hub the one the address names. */
interface Partner {
  agent: string; // empty: the agent of this server
  rpc: string;
  name: string;
  description: string;
  skills: { id: string; name: string; description?: string; examples?: string[] }[];
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
  return partner ? <Talk key={partner.rpc} partner={partner} /> : <Skeleton />;
}

type Send = (parts: Part[], skill: string) => void;

function Talk({ partner }: { partner: Partner }) {
  const isResumed = useRef(!kept.has(partner.rpc)); // the page was loaded: what was talked about before has to be read
  const [talk, setTalk] = useState(() => kept.get(partner.rpc) ?? begin(partner.rpc));
  const [error, setError] = useState<unknown>(null);
  const [isListing, setListing] = useState(false);
  const [chosen, setChosen] = useState(0); // counts skills that were chosen: the form reads its draft again
  const info = me.value!;
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
    if (!isThere) go("chat", { agent: partner.agent, ...where }, true);
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
    go("chat", { agent: partner.agent }, true);
  };

  const send: Send = (parts, skill) => {
    setError(null);
    follow.start();
    void talk.send(parts, skill, undefined, isWaiting(last) ? last : undefined).catch(setError);
  };

  const talks = <Talks rpc={partner.rpc} agent={partner.agent} current={talk.contextId} changed={taskId + turns.length} onChoose={() => setListing(false)} />;
  return (
    <div class="with-talks">
      <aside class="talks" aria-label={t("talks.title")}>
        <button type="button" class="wide" onClick={renew}>
          {t("chat.new")}
        </button>
        {talks}
      </aside>
      <div class="chat">
        <div ref={list}>
          <div class="head">
            <h1>{visible(partner.name)}</h1>
            {info.mode === "hub" && <PartnerChoice agent={partner.agent} />}
            {taskId && (
              <Link to={`tasks/${encodeURIComponent(taskId)}`} query={taskQuery(partner)} class="button">
                {t("chat.timeline")}
              </Link>
            )}
            <button type="button" class="only-narrow" onClick={() => setListing(true)}>
              {t("talks.title")}
            </button>
            <button type="button" class="only-narrow" onClick={renew}>
              {t("chat.new")}
            </button>
          </div>
          {!turns.length && (
            <Beginning
              partner={partner}
              onSend={(text, skill) => send([{ text }], skill)}
              onChoose={(skill) => {
                compose(partner.name, { ...composedOf(partner.name), skill });
                setChosen(chosen + 1);
                setTimeout(() => document.querySelector<HTMLElement>("#composer")?.focus());
              }}
            />
          )}
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
        <Composer key={chosen} partner={partner} send={send} isAnswer={isWaiting(last)} />
        <Announcer turn={last} />
      </div>
      <Dialog title={t("talks.title")} isOpen={isListing} onClose={() => setListing(false)}>
        {talks}
      </Dialog>
    </div>
  );
}

/** Which of the hub's agents to talk to. */
function PartnerChoice({ agent }: { agent: string }) {
  const { value } = usePolled(hub.agents, 60_000);
  const names = (value?.agents ?? []).filter((entry) => entry.state === "approved").map((entry) => entry.name);
  return (
    <select aria-label={t("chat.partner")} value={agent} onChange={(event) => go("chat", { agent: event.currentTarget.value })}>
      <option value="">{visible(me.value!.card.name)}</option>
      {[...new Set([...(agent ? [agent] : []), ...names])].map((name) => (
        <option key={name} value={name}>
          {visible(name)}
        </option>
      ))}
    </select>
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
    // While nothing was said, there is no end to follow.
    const grown = new ResizeObserver(() => near.current && list.current?.querySelector("article") && end());
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

/** What the agent can do, while nothing has been said. */
function Beginning(props: {
  partner: Partner;
  onSend: (text: string, skill: string) => void;
  onChoose: (skill: string) => void;
}) {
  const { description, skills } = props.partner;
  const examples = skills.flatMap((skill) => (skill.examples ?? []).map((text) => ({ text, skill: skill.id })));
  return (
    <>
      <p class="soft">{visible(description)}</p>
      {examples.length > 0 && (
        <>
          <p>{t("chat.empty")}</p>
          <div class="row">
            {examples.slice(0, 6).map((example) => (
              <button type="button" key={example.skill + example.text} onClick={() => props.onSend(example.text, example.skill)}>
                {visible(example.text)}
              </button>
            ))}
          </div>
        </>
      )}
      <h2>{t("agent.skills")}</h2>
      <div class="grid skills">
        {skills.slice(0, 12).map((skill) => (
          <button type="button" key={skill.id} class="card" data-choose={skill.id} onClick={() => props.onChoose(skill.id)}>
            <strong>{visible(skill.name)}</strong>
            <span class="soft small">{visible(skill.description ?? "")}</span>
          </button>
        ))}
      </div>
    </>
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
          {isRunning(turn) && progressOf(task) && <ProgressBar progress={progressOf(task)!} />}
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
      <strong class={isUsers ? "hidden" : ""}>{isUsers ? t("chat.you") : name}</strong>
      {parts
        .filter((part) => part.mediaType !== "application/schema+json")
        .map((part, i) => (
          <PartView key={i} part={part} isUsers={isUsers} />
        ))}
    </div>
  );
}

function Composer({ partner, send, isAnswer }: { partner: Partner; send: Send; isAnswer: boolean }) {
  const [composed, setComposed] = useState(() => composedOf(partner.name));
  const [trouble, setTrouble] = useState("");
  const picker = useRef<HTMLInputElement>(null);
  const [uploads, setUploads] = useState<Upload[]>([]);
  const { text, skill, attached } = composed;
  const label = t(isAnswer ? "chat.answer.to" : "chat.placeholder", { name: visible(partner.name) });
  const change = (more: Partial<typeof composed>) =>
    setComposed((now) => {
      const next = { ...now, ...more };
      compose(partner.name, next);
      return next;
    });

  /** Small files go with the message; others are uploaded while one goes on writing. */
  const add = async (chosen: Iterable<File>) => {
    const attach = (part: Part) => change({ attached: [...composedOf(partner.name).attached, part] });
    for (const file of chosen) {
      if (file.size <= INLINE) {
        attach(await partOf(file));
        continue;
      }
      const own: Upload = { name: file.name, size: file.size, sent: 0, stop: new AbortController() };
      const leave = () => setUploads((now) => now.filter((one) => one.stop !== own.stop));
      setUploads((now) => [...now, own]);
      setTrouble("");
      void upload(partner.rpc, file, own.stop.signal, (sent) =>
        setUploads((now) => now.map((one) => (one.stop === own.stop ? { ...one, sent } : one))),
      )
        .then(attach)
        .catch((error: unknown) => {
          const why = error instanceof Error ? error.message : String(error);
          if (!own.stop.signal.aborted) setTrouble(t("chat.upload.failed", { name: visible(file.name), why }));
        })
        .finally(leave);
    }
  };

  const submit = () => {
    if (uploads.length || (!text.trim() && !attached.length)) return;
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
        {label}
      </label>
      <div class="box">
        <textarea
          id="composer"
          rows={2}
          value={text}
          placeholder={label}
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
          <button type="button" class="quiet" onClick={() => picker.current?.click()}>
            {t("chat.attach")}
          </button>
          {partner.skills.length > 1 && !isAnswer && (
            <label>
              <span class="label">{t("chat.skill")}</span>{" "}
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
          {uploads.map((one) => (
            <span key={one.name} class="row" data-upload={one.name}>
              <span class="small">
                {visible(one.name)} <span class="soft">{bytes(one.size)}</span>
              </span>
              <ProgressBar progress={{ done: one.sent, total: one.size }} />
              <button type="button" class="quiet" onClick={() => one.stop.abort()}>
                {t("chat.upload.cancel")}
              </button>
            </span>
          ))}
          <span class="fill" />
          <button type="submit" class={isAnswer ? "" : "primary"} disabled={uploads.length > 0}>
            {isAnswer ? t("chat.answer") : t("chat.send")}
          </button>
        </div>
      </div>
      {trouble && (
        <p class="bad" role="alert">
          {trouble}
        </p>
      )}
    </form>
  );
}

interface Upload {
  name: string;
  size: number;
  sent: number;
  stop: AbortController;
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
