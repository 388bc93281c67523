/** One agent of the hub: how it is, what its card says and said, and what an admin does with it. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import type { Card, Json } from "../../api/types";
import { moment, t } from "../../i18n";
import { go, me, onChange, useTitle } from "../../state";
import { Copy, Dialog, Link, Trouble } from "../../ui/elements";
import { JsonTree } from "../../ui/json";
import { visible } from "../../ui/text";
import { HealthMark, stateOf } from "./agents";

export default function EntryPage({ name }: { name: string }) {
  const [entry, setEntry] = useState<hub.Entry | null>(null);
  const [cards, setCards] = useState<hub.CardVersion[]>([]);
  const [error, setError] = useState<unknown>(null);
  const [told, setTold] = useState("");
  const [isRetiring, setRetiring] = useState(false);
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
      .then(() => setTold(said))
      .then(load)
      .catch(setError);
  // With its approval an agent gets the name it was added under.
  const decide = (n: number, verb: "approve" | "reject") =>
    void hub
      .decide(name, n, verb)
      .then((made) => (made.name === name ? load() : go(`agents/${encodeURIComponent(made.name)}`)))
      .then(() => setTold(t("entry.saved")))
      .catch(setError);
  if (!entry) return error !== null ? <Trouble error={error} onRetry={load} /> : <p>{t("common.loading")}</p>;
  const address = `${me.value!.base}/agents/${entry.name}/`; // the slash: every client reads it alike
  return (
    <>
      <h1>{entry.name}</h1>
      <p class="row">
        <HealthMark state={entry.health.state} />
        <span data-state-of-entry={entry.state}>{stateOf(entry)}</span>
        <span>{t("agent.version", { version: entry.version })}</span>
        <span class="soft">{entry.signature}</span>
      </p>
      <p>{visible(entry.description)}</p>
      {entry.health.sentence && <p class="card">{entry.health.sentence}</p>}
      <p class="row">
        <span class="mono">{address}</span> <Copy text={() => address} />
      </p>
      <div class="row">
        <Link to="chat" query={{ agent: entry.name }} class="button">
          {t("entry.chat")}
        </Link>
        <button type="button" onClick={() => act(hub.act(name, "probe"), t("entry.probed"))}>
          {t("entry.probe")}
        </button>
        <button type="button" onClick={() => act(hub.act(name, "refresh"), t("entry.refreshed"))}>
          {t("entry.refresh")}
        </button>
        {entry.state === "suspended" ? (
          <button type="button" onClick={() => act(hub.act(name, "resume"), t("entry.resumed"))}>
            {t("entry.resume")}
          </button>
        ) : (
          <button type="button" onClick={() => act(hub.act(name, "suspend"), t("entry.suspended.said"))}>
            {t("entry.suspend")}
          </button>
        )}
        <button type="button" onClick={() => setRetiring(true)}>
          {t("entry.retire")} …
        </button>
      </div>
      <p role="status">{told}</p>
      {error !== null && <Trouble error={error} />}

      <h2>{t("agent.skills")}</h2>
      <ul>
        {(entry.skills ?? []).map((skill) => (
          <li key={skill.id}>
            <strong>{visible(skill.name)}</strong> <span class="mono soft">{visible(skill.id)}</span> {visible(skill.description)}
          </li>
        ))}
      </ul>
      <h2>{t("agent.interfaces")}</h2>
      <ul>
        {(entry.interfaces ?? []).map((one) => (
          <li key={one.url + one.protocolVersion}>
            {one.protocolBinding} {one.protocolVersion} <span class="mono">{visible(one.url)}</span>
          </li>
        ))}
      </ul>
      <Checks name={name} score={entry.score ?? null} />
      <h2>{t("entry.cards")}</h2>
      {cards.map((version) => (
        <CardView key={version.n} version={version} onDecide={(verb) => decide(version.n, verb)} />
      ))}
      <h2>{t("entry.settings")}</h2>
      <label>
        {t("entry.visibility")}{" "}
        <select
          value={entry.visibility}
          onChange={(event) => act(hub.change(name, { visibility: event.currentTarget.value }), t("entry.saved"))}
        >
          {(["public", "team", "private"] as const).map((one) => (
            <option key={one} value={one}>
              {t(`entry.visibility.${one}`)}
            </option>
          ))}
        </select>
      </label>
      <Credential name={name} onDone={() => setTold(t("entry.saved"))} />
      <Dialog title={t("entry.retire")} isOpen={isRetiring} onClose={() => setRetiring(false)}>
        <Retire
          name={name}
          onRetire={() => {
            setRetiring(false);
            void hub
              .retire(name)
              .then(() => go("agents"))
              .catch(setError);
          }}
        />
      </Dialog>
    </>
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
  version: hub.CardVersion;
  isNew?: boolean; // there is none it could differ from: what it says is shown
  onDecide: (verb: "approve" | "reject") => void;
}) {
  const { version, onDecide } = props;
  const card = version.card as Partial<Card> | undefined;
  return (
    <section class="card" data-card={version.n}>
      <p class="row">
        <strong>{t("entry.card.n", { n: version.n })}</strong>
        <span>{version.decision}</span>
        <span class="soft">{moment(version.first_ms)}</span>
        <span class="soft">{version.signature}</span>
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

/** A value as text. It is not cut: what differs may be at its end. */
function whole(value: unknown): string {
  const text = value === undefined || value === null ? "–" : typeof value === "string" ? value : JSON.stringify(value);
  return visible(text);
}

/** The conformance checks, with what to change. */
function Checks({ name, score }: { name: string; score: number | null }) {
  const [report, setReport] = useState<{ score: number; results: hub.CheckResult[] } | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [isBusy, setBusy] = useState(false);
  const run = () => {
    setBusy(true);
    setError(null);
    void hub
      .check(name)
      .then(setReport)
      .catch(setError)
      .finally(() => setBusy(false));
  };
  return (
    <>
      <h2>{t("entry.checks", { score: String(report?.score ?? score ?? "–") })}</h2>
      <button type="button" onClick={run} disabled={isBusy}>
        {isBusy ? t("common.loading") : t("entry.check")}
      </button>
      {error !== null && <Trouble error={error} />}
      {report && (
        <ul data-checks>
          {report.results.map((one, i) => (
            <li key={i} class={one.status === "fail" ? "bad" : ""}>
              {one.status} · {one.title} <span class="soft">{one.interface}</span>
              {one.reason && <div>{one.reason}</div>}
              {one.fix && one.status === "fail" && <div>{one.fix}</div>}
            </li>
          ))}
        </ul>
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
      class="row"
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
