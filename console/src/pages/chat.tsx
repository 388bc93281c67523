/** Chat: talk to the agent, answer its questions, see what it makes. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as hub from "../api/hub";
import type { Json, Part, Schema, Task } from "../api/types";
import { word } from "../fold";
import { SchemaForm } from "../forms/question";
import { bytes, stateWord, t } from "../i18n";
import { ArtifactView, PartView } from "../render/parts";
import { chatPlace, choose, go, me, query } from "../state";
import { Link, State, Trouble } from "../ui/elements";
import { Conversation, type Turn } from "./conversation";

const SCHEMA = "application/schema+json";
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
  useEffect(() => {
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
          rpc: `/agents/${encodeURIComponent(named)}/`,
          name: entry.name,
          description: entry.description,
          skills: entry.skills ?? [],
        }),
      )
      .catch(setError);
  }, [named]);
  if (error !== null) return <Trouble error={error} />;
  const isOwn = !named || (isServed && named === info.card.name);
  const partner = isOwn ? own : other;
  return partner ? <Talk key={partner.rpc} partner={partner} /> : <p>{t("common.loading")}</p>;
}

function Talk({ partner }: { partner: Partner }) {
  const [talk, setTalk] = useState(() => kept.get(partner.rpc) ?? begin(partner.rpc));
  const [error, setError] = useState<unknown>(null);
  const asked = query.value.get("task") ?? "";
  const turns = talk.turns.value;
  const last = turns[turns.length - 1];
  const taskId = last?.task?.id ?? "";

  useEffect(() => {
    if (asked && asked !== taskId) {
      const fresh = begin(partner.rpc);
      setTalk(fresh);
      void fresh.load(asked).catch(setError);
    }
  }, [asked]);

  useEffect(() => {
    if (taskId && taskId !== asked) go(chatPlace(), { agent: partner.agent, task: taskId }, true);
  }, [taskId]);

  const renew = () => {
    talk.leave();
    setTalk(begin(partner.rpc));
    setError(null);
    go(chatPlace(), { agent: partner.agent });
  };

  const send = (parts: Part[], skill: string, json?: string) => {
    setError(null);
    void talk.send(parts, skill, json).catch(setError);
  };

  return (
    <div class="chat">
      <div>
        <div class="row">
          <h1 class="grow">{partner.name}</h1>
          {taskId && (
            <Link to={`tasks/${encodeURIComponent(taskId)}`} query={taskQuery(partner)} class="button">
              {t("chat.timeline")}
            </Link>
          )}
          <button type="button" onClick={renew}>
            {t("chat.new")}
          </button>
        </div>
        <p class="soft">{partner.description}</p>
        {!turns.length && <Examples skills={partner.skills} onSend={(text, skill) => send([{ text }], skill)} />}
        {turns.map((turn, i) => (
          <TurnView key={i} name={partner.name} turn={turn} isLast={i === turns.length - 1} before={turns[i - 1]?.task ?? null} send={send} />
        ))}
        {error !== null && <Trouble error={error} />}
      </div>
      <Composer talk={talk} partner={partner} send={send} />
      <Announcer turn={last} />
    </div>
  );
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
            {example.text}
          </button>
        ))}
      </div>
    </div>
  );
}

/** Of a task that went on after a question, only what is new is shown again. */
function newArtifacts(task: Task, before: Task | null) {
  if (!before || before.id !== task.id) return task.artifacts ?? [];
  const known = new Map((before.artifacts ?? []).map((one) => [one.artifactId, JSON.stringify(one)]));
  return (task.artifacts ?? []).filter((one) => known.get(one.artifactId) !== JSON.stringify(one));
}

function TurnView(props: {
  name: string;
  turn: Turn;
  isLast: boolean;
  before: Task | null;
  send: (parts: Part[], skill: string, json?: string) => void;
}) {
  const { turn, isLast, before } = props;
  const task = turn.task;
  const at = task && { id: task.id, tenant: "", caller: "" };
  const state = task ? word(task.status.state) : "";
  const isQuestion = state === "input-required" || state === "auth-required";
  return (
    <article>
      <div class="bubble you">
        <strong>{t("chat.you")}</strong>
        {turn.message.parts.map((part, i) => (
          <PartView key={i} part={part} />
        ))}
      </div>
      {task && newArtifacts(task, before).map((artifact) => <ArtifactView key={artifact.artifactId} artifact={artifact} at={at ?? undefined} />)}
      {turn.reply && (
        <div class="bubble">
          {turn.reply.parts.map((part, i) => (
            <PartView key={i} part={part} />
          ))}
        </div>
      )}
      {task && !(isQuestion && isLast) && (
        <p class="row">
          <State word={state} />
          {task.status.message && (
            <span class="soft">{task.status.message.parts.map((part) => part.text ?? "").join(" ")}</span>
          )}
        </p>
      )}
      {task && isQuestion && isLast && <Question name={props.name} task={task} send={props.send} />}
      {turn.lostAt && (
        <p class="lost" role="status">
          {t("chat.lost", { event: turn.lostAt })}
        </p>
      )}
      {turn.error && <Trouble error={turn.error} />}
    </article>
  );
}

function Question({ name, task, send }: { name: string; task: Task; send: (parts: Part[], skill: string, json?: string) => void }) {
  const [isWords, setWords] = useState(false);
  const parts = task.status.message?.parts ?? [];
  const schema = parts.find((part) => part.mediaType === SCHEMA)?.data as Schema | undefined;
  const shown = parts.filter((part) => part.mediaType !== SCHEMA);
  const isAuth = word(task.status.state) === "auth-required";
  return (
    <section class="question" aria-label={t("chat.asks", { name })}>
      <p class="row">
        <State word={word(task.status.state)} />
        <span>{t("chat.asks", { name })}</span>
      </p>
      {shown.map((part, i) => (
        <PartView key={i} part={part} />
      ))}
      {isAuth && (
        <button type="button" class="primary" onClick={() => send([{ text: t("chat.done") }], "")}>
          {t("chat.done")}
        </button>
      )}
      {schema && !isWords && schema["type"] === "boolean" && (
        <div class="row">
          <button type="button" onClick={() => send([], "", "true")}>
            {t("chat.approve")}
          </button>
          <button type="button" onClick={() => send([], "", "false")}>
            {t("chat.deny")}
          </button>
        </div>
      )}
      {schema && !isWords && schema["type"] !== "boolean" && (
        <SchemaForm
          key={JSON.stringify(schema)}
          schema={schema}
          label={t("chat.answer")}
          onSend={(json) => send([], "", json)}
        />
      )}
      {schema && (
        <button type="button" onClick={() => setWords(!isWords)}>
          {isWords ? t("chat.form") : t("chat.words")}
        </button>
      )}
    </section>
  );
}

function Composer(props: {
  talk: Conversation;
  partner: Partner;
  send: (parts: Part[], skill: string) => void;
}) {
  const { talk, partner, send } = props;
  const info = me.value!;
  const [text, setText] = useState("");
  const [skill, setSkill] = useState("");
  const [files, setFiles] = useState<File[]>([]);
  const [trouble, setTrouble] = useState("");
  const picker = useRef<HTMLInputElement>(null);

  const add = (chosen: Iterable<File>) => {
    const good: File[] = [];
    for (const file of chosen) {
      if (file.size * 1.4 > info.limits.body) {
        setTrouble(t("chat.toolarge", { name: file.name, limit: bytes(info.limits.body / 1.4) }));
      } else good.push(file);
    }
    setFiles([...files, ...good]);
  };

  const submit = async () => {
    if (!text.trim() && !files.length) return;
    const attached = await Promise.all(files.map(partOf));
    send([...(text.trim() ? [{ text }] : []), ...attached], skill);
    setText("");
    setFiles([]);
    setTrouble("");
  };

  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        void submit();
      }}
      onDragOver={(event) => event.preventDefault()}
      onDrop={(event) => {
        event.preventDefault();
        add(event.dataTransfer?.files ?? []);
      }}
      onPaste={(event) => add(event.clipboardData?.files ?? [])}
    >
      <label class="hidden" for="composer">
        {t("chat.placeholder", { name: partner.name })}
      </label>
      <textarea
        id="composer"
        rows={2}
        value={text}
        placeholder={t("chat.placeholder", { name: partner.name })}
        onInput={(event) => setText(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
            event.preventDefault();
            void submit();
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
          onChange={(event) => add(event.currentTarget.files ?? [])}
        />
        <button type="button" onClick={() => picker.current?.click()}>
          {t("chat.attach")}
        </button>
        {partner.skills.length > 1 && (
          <label>
            {t("chat.skill")}{" "}
            <select value={skill} onChange={(event) => setSkill(event.currentTarget.value)}>
              <option value="">{t("chat.skill.any")}</option>
              {partner.skills.map((one) => (
                <option key={one.id} value={one.id}>
                  {one.name}
                </option>
              ))}
            </select>
          </label>
        )}
        {files.map((file, i) => (
          <button type="button" key={i} onClick={() => setFiles(files.filter((_, at) => at !== i))}>
            {t("chat.remove", { name: file.name })}
          </button>
        ))}
        <span class="grow" />
        {talk.isBusy.value && talk.running && (
          <button type="button" onClick={() => void talk.stop()}>
            {t("chat.stop")}
          </button>
        )}
        <button type="submit" class="primary">
          {t("chat.send")}
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

export type { Json };
