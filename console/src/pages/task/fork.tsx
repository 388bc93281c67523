/** A new task that goes on from an event of this one. It asks first: what came later really happens again. */

import { useState } from "preact/hooks";
import * as http from "../../api/http";
import type { Entry, Summary, Task } from "../../api/types";
import { isFinal, word } from "../../fold";
import { t } from "../../i18n";
import { go, me } from "../../state";
import { Dialog, Link, Trouble } from "../../ui/elements";
import { visible } from "../../ui/text";

const stateOf = (entry: Entry) => entry.event?.statusUpdate?.status ?? entry.event?.task?.status;

/** The last status up to an event, by its number. */
function statusAt(entries: Entry[], seq: number) {
  return stateOf(entries.filter((entry) => entry.seq <= seq && stateOf(entry)).pop() ?? ({} as Entry));
}

/** The steps and delegations that a fork behind this event does again, and those it may do again, by their names. */
export function stepsAgain(entries: Entry[], seq: number): string[] {
  const isStep = (entry: Entry) => entry.kind === "StepEnded" || entry.kind === "Delegated";
  const next = entries.find((entry) => entry.seq === seq + 1 && entry.event);
  const ended = next ? word(stateOf(next)?.state ?? "") : "";
  const hasFailed = ended === "failed" || ended === "rejected";
  const again = entries.filter(
    (entry) => isStep(entry) && (entry.seq > seq || (hasFailed && entry.seq === seq && !!entry.data?.["type"])),
  );
  return [...new Set(again.map((entry) => String(entry.data?.["name"] ?? "")))];
}

/** Where a fork comes from. */
export function ForkedFrom({ summary, at }: { summary: Summary & { task: Task }; at: http.Address }) {
  const point = summary.task.metadata?.["urn:accord:fork:1"] as { taskId?: unknown; at?: unknown } | undefined;
  if (typeof point?.taskId !== "string" || typeof point.at !== "number") return null;
  const { tenant = "", caller = "", agent = "" } = at;
  const side = (name: string, id: string) => ({ [name]: id, [`${name}.tenant`]: tenant, [`${name}.caller`]: caller, [`${name}.agent`]: agent });
  return (
    <Link to="compare" query={{ ...side("left", point.taskId), ...side("right", summary.id) }}>
      {t("fork.of", { n: point.at })}
    </Link>
  );
}

export function Fork({ entries, entry, summary, at }: { entries: Entry[]; entry: Entry; summary: Summary; at: http.Address }) {
  const [isOpen, setOpen] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [answer, setAnswer] = useState("");
  const [error, setError] = useState<unknown>(null);
  const status = statusAt(entries, entry.seq);
  // A relay's tasks are forked at their own agents; who is no operator can't fork here.
  if (!me.value!.isOperator || me.value!.mode === "hub" || !status || isFinal(status.state)) return null;
  const asks = word(status.state) === "input-required";
  const again = stepsAgain(entries, entry.seq);
  const command = `accord task fork ${me.value!.base} ${summary.id} --at ${entry.seq}`;
  const fork = async () => {
    setBusy(true);
    try {
      const { id } = await http.fork(at, entry.seq, asks && answer ? answer : null);
      const { tenant = "", caller = "", agent = "" } = at;
      const place = (side: string, id: string) => ({ [side]: id, [`${side}.tenant`]: tenant, [`${side}.caller`]: caller, [`${side}.agent`]: agent });
      go("compare", { ...place("left", summary.id), ...place("right", id) });
    } catch (wrong) {
      setError(wrong);
    }
    setBusy(false);
  };
  return (
    <>
      <button type="button" onClick={() => setOpen(true)}>
        {t("fork.here")}
      </button>
      <Dialog title={t("fork.title", { n: entry.seq })} isOpen={isOpen} onClose={() => setOpen(false)}>
        <p>{t("fork.what", { n: entry.seq })}</p>
        {again.length > 0 ? (
          <>
            <p>
              <strong>{t("fork.again")}</strong>
            </p>
            <ul data-again>
              {again.map((name) => (
                <li key={name} class="mono">
                  {visible(name)}
                </li>
              ))}
            </ul>
          </>
        ) : (
          <p>{t("fork.new")}</p>
        )}
        {asks && (
          <label class="field">
            <span>{visible(status.message?.parts.map((part) => part.text ?? "").join(" ") ?? "")}</span>
            <input value={answer} onInput={(event) => setAnswer(event.currentTarget.value)} />
            <span class="soft small">{t("fork.answer")}</span>
          </label>
        )}
        <p class="soft small">
          {t("fork.command")} <code>{command}</code>
        </p>
        {error !== null && <Trouble error={error} />}
        <div class="row">
          <button type="button" class="primary" disabled={isBusy} onClick={() => void fork()}>
            {t("fork.yes")}
          </button>
          <button type="button" onClick={() => setOpen(false)}>
            {t("fork.no")}
          </button>
        </div>
      </Dialog>
    </>
  );
}
