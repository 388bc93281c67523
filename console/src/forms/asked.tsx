/** What an agent asks, and the form that answers it. */

import { useEffect, useRef, useState } from "preact/hooks";
import type { Part, Schema, Task } from "../api/types";
import { word } from "../fold";
import { t } from "../i18n";
import { PartView } from "../render/parts";
import { Trouble } from "../ui/elements";
import { keepDraft, useDraft } from "../ui/drafts";
import { Countdown, questionOf } from "../ui/time";
import { SchemaForm } from "./question";

const SCHEMA = "application/schema+json";

/** Sends an answer: parts, or JSON as it was typed. */
export type Answer = (parts: Part[], json?: string) => Promise<void>;

export function Asked(props: {
  task: Task;
  onAnswer: Answer | null; // null: it is not ours to answer
  onCancel?: () => Promise<void>;
  takesFocus?: boolean;
}) {
  const { task, onAnswer } = props;
  const [isWords, setWords] = useState(false);
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const box = useRef<HTMLDivElement>(null);
  const parts = task.status.message?.parts ?? [];
  const schema = parts.find((part) => part.mediaType === SCHEMA)?.data as Schema | undefined;
  const isAuth = word(task.status.state) === "auth-required";
  const { expires } = questionOf(task);
  const isChoice = schema?.["type"] === "boolean";
  const key = `answer.${task.id}.${task.status.message?.messageId ?? ""}`;
  const [text, setText] = useDraft(`${key}.words`);

  useEffect(() => {
    const active = document.activeElement;
    const isTyping = (active instanceof HTMLTextAreaElement || active instanceof HTMLInputElement) && active.value !== "";
    if (!props.takesFocus || isTyping) return;
    // Not to a button: a key that was meant for something else must not answer.
    const field = box.current?.querySelector<HTMLElement>("input, select, textarea");
    (field ?? box.current)?.focus({ preventScroll: true });
  }, [task.id, task.status.message?.messageId, props.takesFocus]);

  const run = async (work: Promise<void>, isAnswer: boolean) => {
    setBusy(true);
    setError(null);
    try {
      await work;
      if (isAnswer) for (const one of [key, `${key}.words`]) keepDraft(one, "");
    } catch (wrong) {
      setError(wrong);
    } finally {
      setBusy(false);
    }
  };
  const answer = (given: Part[], json?: string) => onAnswer && void run(onAnswer(given, json), true);
  return (
    <div ref={box} tabIndex={-1}>
      {parts
        .filter((part) => part.mediaType !== SCHEMA)
        .map((part, i) => (
          <PartView key={i} part={part} />
        ))}
      {expires > 0 && (
        <p class="small">
          <Countdown until={expires} kind="answer" />
        </p>
      )}
      {onAnswer && isAuth && (
        <button type="button" class="primary" disabled={isBusy} onClick={() => answer([{ text: t("chat.done") }])}>
          {t("chat.done")}
        </button>
      )}
      {onAnswer && isChoice && !isWords && (
        <div class="row">
          <button type="button" class="primary" disabled={isBusy} onClick={() => answer([], "true")}>
            {t("chat.approve")}
          </button>
          <button type="button" disabled={isBusy} onClick={() => answer([], "false")}>
            {t("chat.deny")}
          </button>
        </div>
      )}
      {onAnswer && schema && !isChoice && !isWords && (
        <SchemaForm
          key={key}
          draftKey={key}
          schema={schema}
          label={t("chat.answer")}
          isBusy={isBusy}
          onSend={(json) => answer([], json)}
        />
      )}
      {onAnswer && (isWords || (!schema && !isAuth)) && (
        <form
          class="row"
          onSubmit={(event) => {
            event.preventDefault();
            answer([{ text }]);
          }}
        >
          <label class="grow">
            {t("chat.answer")}{" "}
            <input class="wide" value={text} required onInput={(event) => setText(event.currentTarget.value)} />
          </label>
          <button type="submit" class="primary" disabled={isBusy}>
            {t("chat.answer")}
          </button>
        </form>
      )}
      <div class="row">
        {onAnswer && schema && (
          <button type="button" class="quiet" onClick={() => setWords(!isWords)}>
            {isWords ? t("chat.form") : t("chat.words")}
          </button>
        )}
        {props.onCancel && (
          <button type="button" class="quiet" data-cancels={task.id} disabled={isBusy} onClick={() => void run(props.onCancel!(), false)}>
            {t("task.cancel")}
          </button>
        )}
      </div>
      {error !== null && <Trouble error={error} />}
    </div>
  );
}
