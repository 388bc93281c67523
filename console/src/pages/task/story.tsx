/** A task as people read it: what came out or went wrong, then who said what. */

import type { Address } from "../../api/http";
import type { Entry, Part, Task } from "../../api/types";
import { isFinal, word } from "../../fold";
import { t } from "../../i18n";
import { ArtifactView, PartView } from "../../render/parts";
import { me } from "../../state";
import { Copy, State } from "../../ui/elements";
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
          <p>
            <strong class="bad">{visible(raised.type)}</strong> {visible(raised.message)}
          </p>
          <details>
            <summary>{t("task.traceback")}</summary>
            <div class="row">
              <Copy text={() => raised.traceback} />
            </div>
            <pre class="trace-of-error" tabIndex={0}>
              {raised.traceback}
            </pre>
          </details>
          <p class="soft small">{t("task.raised.private")}</p>
        </>
      )}
      {task.status.message?.parts.map((part, i) => <PartView key={i} part={part} />)}
      {(task.artifacts ?? []).map((artifact) => (
        <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />
      ))}
      {!raised && !task.status.message && !task.artifacts?.length && <State word={state} />}
    </section>
  );
}

/** The schema of an answer is for forms; Events has it. */
const isSaid = (part: Part): boolean => part.mediaType !== "application/schema+json";

/** Who said what, and what was made, as the task stood then. */
export function Story({ task, at }: { task: Task; at: Address }) {
  const isOver = isFinal(task.status.state); // its outcome stands above
  const caller = visible(callerName(at.caller)) || t("tasks.anonymous");
  return (
    <div class="story" data-fold={JSON.stringify(task).length}>
      {(task.history ?? []).map((message) => (
        <div key={message.messageId} class={message.role === "ROLE_USER" ? "bubble you" : "card"}>
          <strong>{message.role === "ROLE_USER" ? caller : visible(entryName(at.agent ?? "") || me.value!.card.name)}</strong>
          {message.parts.filter(isSaid).map((part, i) => (
            <PartView key={i} part={part} isUsers={message.role === "ROLE_USER"} />
          ))}
        </div>
      ))}
      {!isOver &&
        (task.artifacts ?? []).map((artifact) => <ArtifactView key={artifact.artifactId} artifact={artifact} at={at} />)}
      {!isOver && task.status.message && (
        <div class="card">
          {task.status.message.parts.filter(isSaid).map((part, i) => (
            <PartView key={i} part={part} />
          ))}
        </div>
      )}
      <p>
        <State word={word(task.status.state)} />
      </p>
    </div>
  );
}
