/** One agent of the hub: how it is, what its card says and said, and what an admin does with it. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import * as http from "../../api/http";
import type { Card, Json } from "../../api/types";
import { has, moment, number, span, t } from "../../i18n";
import { go, me, onChange, query, say, useTitle } from "../../state";
import { Copy, Dialog, Link, Skeleton, Tabs, Trouble } from "../../ui/elements";
import { JsonTree } from "../../ui/json";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";
import { Interfaces } from "../interfaces";
import { HealthMark, stateOf } from "./agents";

const TABS = ["overview", "checks", "cards", "settings"];

export default function EntryPage({ name }: { name: string }) {
  const [entry, setEntry] = useState<hub.Entry | null>(null);
  const [cards, setCards] = useState<hub.CardVersion[]>([]);
  const [error, setError] = useState<unknown>(null);
  useTitle(name);

  const load = () =>
    void Promise.all([hub.agent(name), hub.cards(name)])
      .then(([found, versions]) => {
        setEntry(found);
        setCards(versions.cards);
        setError(null);
      })
      .catch(setError);
  useEffect(() => {
    load();
    return onChange((news) => news.isBack && load());
  }, [name]);
  const act = (work: Promise<unknown>, said: string) =>
    void work
      .then(() => say(said))
      .then(load)
      .catch(setError);
  // With its approval an agent gets the name it was added under.
  const decide = (n: number, verb: "approve" | "reject") =>
    void hub
      .decide(name, n, verb)
      .then((made) => (made.name === name ? load() : go(`agents/${encodeURIComponent(made.name)}`)))
      .then(() => say(t("entry.saved")))
      .catch(setError);
  if (!entry) return error !== null ? <Trouble error={error} onRetry={load} /> : <Skeleton />;
  const address = `${me.value!.base}/agents/${entry.name}/`; // the slash: every client reads it alike
  const waiting = cards.filter((version) => version.decision === "waiting").length;
  const chosen = query.value.get("tab") ?? "";
  const tab = TABS.includes(chosen) ? chosen : "overview";
  const label = (one: string) => (
    <>
      {t(`entry.tab.${one}` as "entry.tab.overview")}
      {one === "cards" && waiting > 0 && <span class="count wait">{number(waiting)}</span>}
    </>
  );
  return (
    <>
      <div class="head">
        <h1>{entry.name}</h1>
        <button type="button" onClick={() => act(hub.act(name, "probe"), t("entry.probed"))}>
          {t("entry.probe")}
        </button>
        <button type="button" onClick={() => act(hub.act(name, "refresh"), t("entry.refreshed"))}>
          {t("entry.refresh")}
        </button>
        <Link to="tasks" query={{ find: entry.name }} class="button">
          {t("entry.tasks")}
        </Link>
        <Link to="chat" query={{ agent: entry.name }} class="button primary">
          {t("entry.chat")}
        </Link>
      </div>
      <p class="row facts">
        <HealthMark state={entry.health.state} />
        <span data-state-of-entry={entry.state}>{stateOf(entry)}</span>
        <span>{t("agent.version", { version: entry.version })}</span>
        <span>{wordOf("signature", entry.signature ?? "")}</span>
      </p>
      <p>{visible(entry.description)}</p>
      {entry.health.sentence && <p class="card">{entry.health.sentence}</p>}
      {error !== null && <Trouble error={error} />}
      <Tabs
        of={entry.name}
        names={TABS}
        active={tab}
        label={label}
        onChoose={(one) => go(`agents/${encodeURIComponent(name)}`, { tab: one === "overview" ? "" : one }, true)}
      />
      {tab === "overview" && <Overview entry={entry} address={address} />}
      {tab === "checks" && <Checks name={name} score={entry.score ?? null} />}
      {tab === "cards" &&
        cards.map((version) => <CardView key={version.n} agent={name} version={version} onDecide={(verb) => decide(version.n, verb)} />)}
      {tab === "settings" && <EntrySettings entry={entry} act={act} onError={setError} />}
    </>
  );
}

/** A word of the server's in the language of the page, if there is one. */
function wordOf(kind: "signature" | "decision", word: string): string {
  const key = `${kind}.${word}`;
  return has(key) ? t(key) : visible(word);
}

function Overview({ entry, address }: { entry: hub.Entry; address: string }) {
  const { health } = entry;
  const ms = (value: number | null | undefined) => (value == null ? "–" : span(value));
  return (
    <>
      <div class="grid">
        <section class="card tile">
          <span class="soft">{t("entry.uptime")}</span>
          <div class="figure">{health.uptime_30d == null ? "–" : `${number(Math.round(health.uptime_30d * 1000) / 10)} %`}</div>
        </section>
        <section class="card tile">
          <span class="soft">{t("entry.answers")}</span>
          <div class="figure">{ms(health.p50_ms)}</div>
          <p class="soft">{t("now.p95", { time: ms(health.p95_ms) })}</p>
        </section>
        <section class="card tile">
          <span class="soft">{t("agents.score")}</span>
          <div class="figure">{entry.score ?? "–"}</div>
        </section>
      </div>
      <div class="with-facts">
        <div>
          <h2>{t("agent.skills")}</h2>
          <ul class="plain card ranked">
            {(entry.skills ?? []).map((skill) => (
              <li key={skill.id}>
                <strong>{visible(skill.name)}</strong>
                <span class="mono soft">{visible(skill.id)}</span>
                <span class="soft">{visible(skill.description)}</span>
              </li>
            ))}
          </ul>
        </div>
        <div>
          <h2>{t("entry.address")}</h2>
          <p class="card row">
            <span class="mono fill">{address}</span> <Copy text={() => address} isQuiet />
          </p>
          <h2>{t("agent.interfaces")}</h2>
          <Interfaces of={entry.interfaces ?? []} />
        </div>
      </div>
    </>
  );
}

/** Who may see it, its credential, and what can't be taken back. */
function EntrySettings(props: {
  entry: hub.Entry;
  act: (work: Promise<unknown>, said: string) => void;
  onError: (error: unknown) => void;
}) {
  const { entry, act } = props;
  const { name } = entry;
  const [isRetiring, setRetiring] = useState(false);
  return (
    <div class="narrow">
      <section class="card">
        <h2>{t("entry.visibility")}</h2>
        <select
          aria-label={t("entry.visibility")}
          value={entry.visibility}
          onChange={(event) => act(hub.change(name, { visibility: event.currentTarget.value }), t("entry.saved"))}
        >
          {(["public", "team", "private"] as const).map((one) => (
            <option key={one} value={one}>
              {t(`entry.visibility.${one}`)}
            </option>
          ))}
        </select>
      </section>
      <section class="card">
        <h2>{t("entry.credential.title")}</h2>
        <p class="soft">{t("entry.credential.text")}</p>
        <Credential name={name} onDone={() => say(t("entry.saved"))} />
      </section>
      <section class="card danger-zone" data-danger>
        <h2>{t("entry.danger")}</h2>
        <div class="row">
          <span class="grow">{entry.state === "suspended" ? t("entry.resume.text") : t("entry.suspend.text")}</span>
          {entry.state === "suspended" ? (
            <button type="button" onClick={() => act(hub.act(name, "resume"), t("entry.resumed"))}>
              {t("entry.resume")}
            </button>
          ) : (
            <button type="button" class="danger" onClick={() => act(hub.act(name, "suspend"), t("entry.suspended.said"))}>
              {t("entry.suspend")}
            </button>
          )}
        </div>
        <div class="row">
          <span class="grow">{t("entry.retire.ask")}</span>
          <button type="button" class="danger" onClick={() => setRetiring(true)}>
            {t("entry.retire")} …
          </button>
        </div>
      </section>
      <Dialog title={t("entry.retire")} isOpen={isRetiring} onClose={() => setRetiring(false)}>
        <Retire
          name={name}
          onRetire={() => {
            setRetiring(false);
            void hub
              .retire(name)
              .then(() => go("agents"))
              .catch(props.onError);
          }}
        />
      </Dialog>
    </div>
  );
}

/** It can't be undone, so the name has to be typed. */
function Retire({ name, onRetire }: { name: string; onRetire: () => void }) {
  const [typed, setTyped] = useState("");
  return (
    <form
      onSubmit={(event) => {
        event.preventDefault();
        if (typed === name) onRetire();
      }}
    >
      <p>{t("entry.retire.ask")}</p>
      <div class="field">
        <label for="retire-name">{t("entry.retire.type", { name })}</label>
        <input id="retire-name" autocomplete="off" value={typed} onInput={(event) => setTyped(event.currentTarget.value)} />
      </div>
      <button type="submit" class="danger" disabled={typed !== name}>
        {t("entry.retire")}
      </button>
    </form>
  );
}

/** A version of the card: what differs in it, and the decision it waits for. */
export function CardView(props: {
  agent: string;
  version: hub.CardVersion;
  isNew?: boolean; // there is none it could differ from: what it says is shown
  onDecide: (verb: "approve" | "reject") => void;
}) {
  const { version, onDecide } = props;
  const card = version.card as Partial<Card> | undefined;
  const isWaiting = version.decision === "waiting" && !props.isNew;
  const { value: usage } = usePolled(() => (isWaiting ? http.usage(props.agent) : Promise.resolve(null)), 30_000, [props.agent, isWaiting]);
  return (
    <section class="card" data-card={version.n}>
      <p class="row">
        <strong>{t("entry.card.n", { n: version.n })}</strong>
        <span>{wordOf("decision", version.decision)}</span>
        <span class="soft">{moment(version.first_ms)}</span>
        <span class="soft">{wordOf("signature", version.signature)}</span>
      </p>
      {props.isNew && card && (
        <ul>
          {(card.supportedInterfaces ?? []).map((one) => (
            <li key={one.url + one.protocolVersion}>
              {one.protocolBinding} {one.protocolVersion} <span class="mono">{visible(one.url)}</span>
            </li>
          ))}
          {(card.skills ?? []).map((skill) => (
            <li key={skill.id}>
              <strong>{visible(skill.name)}</strong> {visible(skill.description)}
            </li>
          ))}
        </ul>
      )}
      {!props.isNew && !version.differences.length && <p class="soft">{t("entry.same")}</p>}
      {version.differences.length > 0 && (
        <ul>
          {version.differences.map((one, i) => (
            <li key={i} class={one.weight === "material" ? "bad" : ""} data-weight={one.weight}>
              {t(`weight.${one.weight}`)}: {visible(one.sentence)}
              {usage && <Affected usage={usage} skill={skillOf(one)} />}
              {(one.before !== undefined || one.after !== undefined) && (
                <>
                  <div class="mono soft long">− {whole(one.before)}</div>
                  <div class="mono long">+ {whole(one.after)}</div>
                </>
              )}
            </li>
          ))}
        </ul>
      )}
      {version.notes.length > 0 && (
        <ul class="soft">
          {version.notes.map((note) => (
            <li key={note}>{visible(note)}</li>
          ))}
        </ul>
      )}
      {version.card != null && <JsonTree value={version.card as Json} isOpen={false} />}
      {version.decision === "waiting" && (
        <div class="row">
          <button type="button" class="primary" onClick={() => onDecide("approve")}>
            {t("entry.approve")}
          </button>
          <button type="button" onClick={() => onDecide("reject")}>
            {t("entry.reject")}
          </button>
        </div>
      )}
    </section>
  );
}

/** The skill that a difference is about; empty if it is about the agent. */
function skillOf({ kind, where }: hub.Difference): string {
  return kind === "skill removed" || kind === "skill added" ? where : (/^skill (.*?): /.exec(where)?.[1] ?? "");
}

/** Whose calls of the last week a difference is about. A skill that is new has none. */
function Affected({ usage, skill }: { usage: http.Usage; skill: string }) {
  const { calls, callers } = skill ? (usage.skills[skill] ?? { calls: 0, callers: 0 }) : usage;
  const text = calls ? t("entry.affected", { callers: number(callers), calls: number(calls) }) : t("entry.affected.none");
  return (
    <div class="small soft" data-affected={callers}>
      {text} {!usage.isAll && t("entry.affected.part")}
    </div>
  );
}

/** A value as text. It is not cut: what differs may be at its end. */
function whole(value: unknown): string {
  const text = value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  return visible(text);
}

const FIRST = ["fail", "skip", "pass"];

/** The conformance checks, what fails first, with what to change. */
function Checks({ name, score }: { name: string; score: number | null }) {
  const [report, setReport] = useState<hub.CheckReport | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const take = (asked: Promise<hub.CheckReport>) => {
    setBusy(true);
    setError(null);
    void asked
      .then(setReport)
      .catch(setError)
      .finally(() => setBusy(false));
  };
  useEffect(() => {
    if (score !== null) take(hub.lastChecks(name)); // else there were none
  }, [name]);
  const results = report?.results ?? [];
  const of = (status: string) => results.filter((one) => one.status === status);
  return (
    <>
      <div class="head">
        <h2 class="grow">
          {t("entry.checks", { score: String(report?.score ?? score ?? "–") })}
          {report?.at_ms && <span class="soft small"> {moment(report.at_ms)}</span>}
        </h2>
        <button type="button" class="primary" onClick={() => take(hub.check(name))} disabled={isBusy}>
          {isBusy ? t("common.loading") : t("entry.check")}
        </button>
      </div>
      {error !== null && <Trouble error={error} />}
      {!report && !isBusy && error === null && <p class="empty">{t("entry.checks.none")}</p>}
      {report && (
        <div data-checks>
          {FIRST.filter((status) => of(status).length).map((status) => (
            <details key={status} class="card fold" open={status === "fail"} data-status={status}>
              <summary>
                <strong class={status === "fail" ? "bad" : ""}>{t(`check.${status}` as "check.fail")}</strong>{" "}
                <span class="soft">{number(of(status).length)}</span>
              </summary>
              <ul class="plain ranked">
                {of(status).map((one, i) => (
                  <li key={i}>
                    <span>{one.title}</span>
                    <span class="soft small">{one.interface}</span>
                    {one.reason && <span class={status === "fail" ? "bad small" : "soft small"}>{visible(one.reason)}</span>}
                    {one.fix && status === "fail" && <span class="small across">{visible(one.fix)}</span>}
                  </li>
                ))}
              </ul>
            </details>
          ))}
        </div>
      )}
    </>
  );
}

/** A secret the hub shows to the agent. It is never read back. */
function Credential({ name, onDone }: { name: string; onDone: () => void }) {
  const [scheme, setScheme] = useState("");
  const [kind, setKind] = useState("api_key");
  const [secret, setSecret] = useState("");
  const [error, setError] = useState<unknown>(null);
  return (
    <form
      class="row fields"
      onSubmit={(event) => {
        event.preventDefault();
        void hub
          .setCredential(name, scheme, kind, secret)
          .then(() => {
            setSecret("");
            setError(null);
            onDone();
          })
          .catch(setError);
      }}
    >
      <label>
        {t("entry.scheme")} <input required value={scheme} onInput={(event) => setScheme(event.currentTarget.value)} />
      </label>
      <label>
        {t("entry.kind")}{" "}
        <select value={kind} onChange={(event) => setKind(event.currentTarget.value)}>
          <option value="api_key">API key</option>
          <option value="bearer">Bearer</option>
          <option value="basic">Basic</option>
        </select>
      </label>
      <label>
        {t("entry.secret")}{" "}
        <input type="password" autocomplete="off" required value={secret} onInput={(event) => setSecret(event.currentTarget.value)} />
      </label>
      <button type="submit">{t("entry.credential")}</button>
      {error !== null && <Trouble error={error} />}
    </form>
  );
}
