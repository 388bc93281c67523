/** Push notifications: endpoints, the webhooks of tasks at each, and every attempt with request and answer. */

import { useState } from "preact/hooks";
import * as http from "../api/http";
import type { Attempt, Letter, Push } from "../api/types";
import { clock, moment, number, t } from "../i18n";
import { go, me, query, say } from "../state";
import { Link, Segments, Skeleton, Trouble } from "../ui/elements";
import { usePolled } from "../ui/polled";
import { visible } from "../ui/text";
import { addressOf, callerName, entryName } from "./address";
import { RequestAndAnswer } from "./exchanged";

const POLL_MS = 2000;
const SHOWN = 200; // that the server gives at once

export interface Endpoint {
  name: string;
  webhooks: number;
  pending: number; // events
  troubled: number; // webhooks that fail or were disabled
  error: string;
}

const isTroubled = (push: Push): boolean => !!push.disabled || push.tries > 0;

/** Endpoints with what is at each, those in trouble first. */
export function endpointsOf(pushes: Push[]): Endpoint[] {
  const found = new Map<string, Endpoint>();
  for (const push of pushes) {
    const one = found.get(push.endpoint) ?? { name: push.endpoint, webhooks: 0, pending: 0, troubled: 0, error: "" };
    one.webhooks += 1;
    if (!push.disabled) one.pending += Math.max(0, push.upto - push.sent);
    if (isTroubled(push)) {
      one.troubled += 1;
      one.error ||= push.disabled || push.error;
    }
    found.set(push.endpoint, one);
  }
  return [...found.values()].sort((a, b) => b.troubled - a.troubled || a.name.localeCompare(b.name));
}

export default function PushesPage() {
  const chosen = query.value.get("endpoint") ?? "";
  const only = query.value.get("only") === "troubled" ? "troubled" : "";
  const { value, error, load } = usePolled(() => http.pushes(only !== ""), POLL_MS, [only]);
  const endpoints = endpointsOf(value?.pushes ?? []);
  const at = endpoints.length === 1 ? endpoints[0] : endpoints.find((one) => one.name === chosen);
  return (
    <>
      <div class="head">
        <h1>{t("pushes.title")}</h1>
        <Segments
          of={t("pushes.state")}
          names={["", "troubled"]}
          active={only}
          label={(name) => (name ? t("pushes.troubled") : t("common.all"))}
          onChoose={(name) => go("pushes", { only: name }, true)}
        />
      </div>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {!value && error === null && <Skeleton />}
      {value && !value.pushes.length && <p class="empty">{only ? t("pushes.well") : t("pushes.none")}</p>}
      {endpoints.length > 0 && (
        <div class="table folds">
          <table>
            <caption class="hidden">{t("pushes.endpoints")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("pushes.endpoint")}</th>
                <th scope="col">{t("pushes.state")}</th>
                <th scope="col" class="numbers">
                  {t("pushes.webhooks")}
                </th>
                <th scope="col" class="numbers">
                  {t("pushes.pending")}
                </th>
              </tr>
            </thead>
            <tbody>
              {endpoints.map((one) => (
                <tr
                  key={one.name}
                  data-endpoint={one.name}
                  aria-selected={one === at}
                  onClick={(event) => {
                    if (!(event.target as HTMLElement).closest("a")) go("pushes", { only, endpoint: one.name === chosen ? "" : one.name });
                  }}
                >
                  <td class="first">
                    <Link to="pushes" query={{ only, endpoint: one.name === chosen ? "" : one.name }}>
                      {visible(one.name)}
                    </Link>
                  </td>
                  <td class={one.troubled ? "bad" : "good"}>
                    {one.troubled ? t("pushes.troubles", { count: number(one.troubled), error: visible(one.error) }) : t("pushes.ok")}
                  </td>
                  <td class="numbers" data-label={t("pushes.webhooks")}>
                    {number(one.webhooks)}
                  </td>
                  <td class="numbers" data-label={t("pushes.pending")}>
                    {number(one.pending)}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
      {value && value.pushes.length >= SHOWN && <p class="soft small">{t("pushes.part", { count: number(SHOWN) })}</p>}
      {endpoints.length > 0 && !at && <p class="soft small">{t("pushes.choose")}</p>}
      {value && at && (
        <>
          <h2>
            {t("pushes.at", { endpoint: visible(at.name) })} <span class="soft">{number(at.webhooks)}</span>
          </h2>
          <p class="soft small">{t("pushes.open")}</p>
          <Webhooks pushes={value.pushes.filter((push) => push.endpoint === at.name)} letters={value.letters} onChange={load} hasTasks />
        </>
      )}
    </>
  );
}

/** The webhooks of one task. */
export function PushesView({ read }: { read: () => Promise<http.Pushes> }) {
  const { value, error, load } = usePolled(read, POLL_MS);
  if (!value) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  return (
    <>
      {error !== null && <Trouble error={error} onRetry={load} />}
      {value.pushes.length ? (
        <Webhooks pushes={value.pushes} letters={value.letters} onChange={load} />
      ) : (
        <p class="empty">{t("pushes.none")}</p>
      )}
    </>
  );
}

function Webhooks(props: { pushes: Push[]; letters: Letter[]; onChange: () => void; hasTasks?: boolean }) {
  const [open, setOpen] = useState("");
  const keyOf = (push: Push) => `${push.taskId} ${push.id}`;
  const shown = props.pushes.find((push) => keyOf(push) === open);
  return (
    <div class={shown ? "with-pane" : ""}>
      <div class="table folds">
        <table>
          <caption class="hidden">{t("pushes.table")}</caption>
          <thead>
            <tr>
              <th scope="col">{props.hasTasks ? t("pushes.task") : t("pushes.endpoint")}</th>
              <th scope="col">{t("pushes.state")}</th>
              <th scope="col" class="numbers">
                {t("pushes.sent")}
              </th>
              <th scope="col">{t("tasks.caller")}</th>
              <th scope="col">A2A</th>
            </tr>
          </thead>
          <tbody>
            {props.pushes.map((push) => (
              <tr
                key={keyOf(push)}
                data-push={push.id}
                aria-selected={keyOf(push) === open}
                onClick={(event) => {
                  if (!(event.target as HTMLElement).closest("button")) setOpen(keyOf(push) === open ? "" : keyOf(push));
                }}
              >
                <td class="first">
                  <button type="button" class="bare name" onClick={() => setOpen(keyOf(push) === open ? "" : keyOf(push))}>
                    {props.hasTasks ? <span class="mono">{push.taskId.slice(0, 18)}</span> : visible(push.endpoint)}
                  </button>
                </td>
                <td class={isTroubled(push) ? "bad" : "good"}>{stateOf(push)}</td>
                <td class="numbers">
                  {number(push.sent)} / {number(push.upto)}
                </td>
                <td data-label={t("tasks.caller")}>{visible(callerName(push.caller)) || t("tasks.anonymous")}</td>
                <td class="soft" data-label="A2A">
                  {push.version}
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {shown && (
        <Webhook
          key={open}
          push={shown}
          letters={props.letters.filter((one) => one.taskId === shown.taskId && one.push === shown.id)}
          onClose={() => setOpen("")}
          onChange={props.onChange}
        />
      )}
    </div>
  );
}

/** One webhook: what was given up, and each attempt with its request and answer. */
function Webhook(props: { push: Push; letters: Letter[]; onClose: () => void; onChange: () => void }) {
  const { push } = props;
  const at: http.Address = { id: push.taskId, tenant: push.tenant, caller: push.caller, agent: push.agent };
  const { value, error, load } = usePolled(() => http.attemptsOf(at, push.id), POLL_MS);
  const [attempt, setAttempt] = useState<Attempt | null>(null);
  const [wrong, setWrong] = useState<unknown>(null);
  const act = (work: Promise<unknown>) =>
    void work
      .then(() => setWrong(null))
      .then(() => (load(), props.onChange()))
      .catch(setWrong);
  const test = () =>
    act(
      http.testPush(at, push.id).then((done) => say(done.error ? t("pushes.tested.bad", { error: done.error }) : t("pushes.tested"))),
    );
  const again = (n: number) => act(http.replay(n).then(() => say(t("pushes.replayed"))));
  return (
    <aside class="pane" aria-label={t("pushes.webhook")} data-webhook={push.id}>
      <div class="head">
        <h2 class="fill">{t("pushes.attempts")}</h2>
        <button type="button" onClick={test}>
          {t("pushes.test")}
        </button>
        <button type="button" onClick={props.onClose}>
          {t("common.close")}
        </button>
      </div>
      <p class="soft small">
        <Link to={`tasks/${encodeURIComponent(push.taskId)}`} query={addressOf(push)}>
          {t("pushes.task")}
        </Link>{" "}
        {me.value!.mode === "hub" && visible(entryName(push.agent))} · {visible(push.endpoint)}
      </p>
      {(wrong ?? error) !== null && <Trouble error={wrong ?? error} onRetry={load} />}
      {props.letters.length > 0 && (
        <>
          <h3>{t("pushes.letters")}</h3>
          <ul class="plain ranked">
            {props.letters.map((letter) => (
              <li key={letter.n} data-letter={letter.n}>
                <span class="bad">{t("pushes.letter", { first: letter.first, last: letter.last, error: visible(letter.error) })}</span>
                <button type="button" onClick={() => again(letter.n)}>
                  {t("pushes.replay")}
                </button>
                <span class="soft small">{moment(letter.at)}</span>
              </li>
            ))}
          </ul>
        </>
      )}
      {value && !value.isKept && <p class="soft">{t("pushes.notkept")}</p>}
      {value?.isKept && !value.attempts.length && <p class="soft">{t("pushes.noattempts")}</p>}
      {!!value?.attempts.length && (
        <ul class="plain ranked">
          {value.attempts.map((one) => (
            <li key={one.n} data-attempt={one.verdict}>
              <button
                type="button"
                class="bare name"
                aria-expanded={attempt?.n === one.n}
                onClick={() => (attempt?.n === one.n ? setAttempt(null) : void http.attempt(one.n).then(setAttempt).catch(setWrong))}
              >
                <span class={one.verdict === "delivered" ? "good" : "bad"}>{t(`pushes.verdict.${one.verdict}`)}</span>{" "}
                {t("pushes.event", { n: number(one.event) })}
              </button>
              <span class="numbers soft">{number(one.ms)} ms</span>
              <span class="soft small">
                {clock(one.at)} {visible(one.error)}
              </span>
              {attempt?.n === one.n && (
                <div class="across">
                  <RequestAndAnswer first={`POST ${push.endpoint}/…`} of={attempt} />
                </div>
              )}
            </li>
          ))}
        </ul>
      )}
    </aside>
  );
}

function stateOf(push: Push): string {
  if (push.disabled) return t("pushes.disabled", { why: visible(push.disabled) });
  if (push.tries) return t("pushes.failing", { tries: push.tries, error: visible(push.error) });
  if (push.due !== null) return t("pushes.waiting", { time: moment(push.due) });
  return t("pushes.ok");
}
