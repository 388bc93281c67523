/** A task as people read it: what came out or went wrong, then who said what. */

import type { Address } from "../../api/http";
import type { Entry, Message, Part, Task } from "../../api/types";
import { isFinal, word } from "../../fold";
import { clock, t } from "../../i18n";
import { ArtifactView, PartView } from "../../render/parts";
import { me } from "../../state";
import { Copy, Link, State } from "../../ui/elements";
import { visible } from "../../ui/text";
import { callerName, entryName } from "../address";
import { raisedIn } from "./log";

/** The result, or why there is none, above everything else. */
export function Outcome({ task, entries, now, at }: { task: Task; entries: Entry[]; now: number; at: Address }) {
  const state = word(task.status.state);
  const isBad = state === "failed" || state === "rejected";
  const raised = isBad ? raisedIn(entries, now) : null;
  if (!isFinal(task.status.state)) return null;
  return (
    <section class={`card ${isBad ? "outcome-bad" : "outcome-good"}`} data-outcome={state}>
      <h2 class="hidden">{t("task.outcome")}</h2>
      {raised && (
        <>
          <p class="cause">
            <strong class="bad">{visible(raised.type)}</strong> {visible(raised.message)}
          </p>
          <details open>
            <summary>
              {t("task.traceback")} <span class="soft small">· {t("task.raised.private")}</span>
            </summary>
            <div class="framed">
              <Copy text={() => raised.traceback} isQuiet />
              <pre class="trace-of-error" tabIndex={0}>
                {raised.traceback}
              </pre>
            </div>
          </details>
        </>
      )}
      {raised && task.status.message && <span class="soft small">{t("task.told")}</span>}
      {task.status.message?.parts.map((part, i) => <PartView key={i} part={part} />)}
      {isBad && !raised && <CauseThere message={task.status.message} agent={at.agent ?? ""} />}
      {(task.artifacts ?? []).map((artifact) => (
        <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />
      ))}
      {!raised && !task.status.message && !task.artifacts?.length && <State word={state} />}
    </section>
  );
}

/** Where the cause is found of which an agent behind a hub told no more than a reference. */
function CauseThere({ message, agent }: { message: Message | undefined; agent: string }) {
  const said = message?.parts.map((part) => part.text ?? "").join("\n") ?? "";
  const reference = /Reference: (\w+)$/.exec(said)?.[1];
  const { mode, card } = me.value!;
  if (mode !== "hub" || !agent || agent === card.name || !reference) return null;
  const entry = entryName(agent);
  return (
    <p class="soft" data-cause>
      {t("task.cause.there", { reference })} <Link to={`agents/${encodeURIComponent(entry)}`}>{visible(entry)}</Link>
    </p>
  );
}

/** The schema of an answer is for forms; Events has it. */
const isSaid = (part: Part): boolean => part.mediaType !== "application/schema+json";

/** When each message was stored, by its id. */
export function timesOf(entries: Entry[]): Map<string, number> {
  const times = new Map<string, number>();
  for (const { at, event, message } of entries) {
    const status = event?.statusUpdate?.status ?? event?.task?.status;
    for (const one of [...(event?.task?.history ?? []), message, status?.message]) {
      if (one && !times.has(one.messageId)) times.set(one.messageId, at);
    }
  }
  return times;
}

/** Who said what, and what was made, as the task stood then. */
export function Story({ task, entries, at }: { task: Task; entries: Entry[]; at: Address }) {
  const isOver = isFinal(task.status.state); // its outcome stands above
  const caller = visible(callerName(at.caller)) || t("tasks.anonymous");
  const agent = visible(entryName(at.agent ?? "") || me.value!.card.name);
  const times = timesOf(entries);
  const asked = isOver ? undefined : task.status.message;
  return (
    <div class="story" data-fold={JSON.stringify(task).length}>
      <ol class="plain thread">
        {(task.history ?? []).map((message) => (
          <Said key={message.messageId} message={message} who={message.role === "ROLE_USER" ? caller : agent} time={times.get(message.messageId)} />
        ))}
        {asked && <Said message={asked} who={agent} time={times.get(asked.messageId)} />}
      </ol>
      {!isOver &&
        (task.artifacts ?? []).map((artifact) => <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />)}
      {!isOver && (
        <p>
          <State word={word(task.status.state)} />
        </p>
      )}
    </div>
  );
}

function Said({ message, who, time }: { message: Message; who: string; time: number | undefined }) {
  const isUsers = message.role === "ROLE_USER";
  return (
    <li class={isUsers ? "users" : ""}>
      <strong>{who}</strong> {time !== undefined && <span class="soft small">{clock(time)}</span>}
      {message.parts.filter(isSaid).map((part, i) => (
        <PartView key={i} part={part} isUsers={isUsers} />
      ))}
    </li>
  );
}
