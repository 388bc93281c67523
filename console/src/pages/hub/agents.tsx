/** The hub's agents: all of them, or what fits a request; and one more by its address. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import { moment, t, has } from "../../i18n";
import { go, query } from "../../state";
import { Link, Trouble } from "../../ui/elements";
import { useRows } from "../../ui/keys";
import { usePolled } from "../../ui/polled";

export function healthWord(state: string): string {
  const key = `health.${state}`;
  return has(key) ? t(key) : state;
}

/** How an agent is, by a sign and a word: not by colour alone. */
export function HealthMark({ state }: { state: string }) {
  const signs: { [state: string]: string } = { up: "●", degraded: "◐", locked: "■", broken: "✕", down: "○", gone: "–" };
  return (
    <span class={`health ${state}`} data-health={state}>
      <span aria-hidden="true">{signs[state] ?? "◌"}</span> {healthWord(state)}
    </span>
  );
}

export default function Agents() {
  const { value, error: unread, load } = usePolled(hub.agents, 3000);
  const found = value?.agents ?? null;
  const [hits, setHits] = useState<hub.Hit[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [words, setWords] = useState(query.value.get("q") ?? "");
  const asked = query.value.get("q") ?? "";

  useEffect(() => {
    setError(null);
    if (!asked) return setHits(null);
    hub
      .search(asked)
      .then((result) => setHits(result.untrusted))
      .catch(setError);
  }, [asked]);

  const shown = (found ?? []).filter((entry) => !hits || hits.some((hit) => hit.agent === entry.name));
  const order = new Map((hits ?? []).map((hit, i) => [hit.agent, i]));
  shown.sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
  const selected = useRows(shown.length, (i) => {
    const entry = shown[i];
    if (entry) go(`agents/${encodeURIComponent(entry.name)}`);
  });
  return (
    <>
      <h1>{t("agents.title")}</h1>
      {(error ?? unread) !== null && <Trouble error={error ?? unread} onRetry={() => (setError(null), load())} />}
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          go("agents", { q: words });
        }}
      >
        <label class="grow">
          {t("agents.search")}{" "}
          <input id="search" type="search" value={words} onInput={(event) => setWords(event.currentTarget.value)} />
        </label>
        <button type="submit">{t("agents.find")}</button>
      </form>
      <AddAgent onAdded={load} />
      {found && !found.length && <p>{t("agents.empty")}</p>}
      {hits && !shown.length && <p>{t("agents.nothing")}</p>}
      {shown.length > 0 && (
        <div class="scroll" tabIndex={0}>
          <table>
            <caption class="hidden">{t("agents.table")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("agents.name")}</th>
                <th scope="col">{t("agents.health")}</th>
                <th scope="col">{t("agents.what")}</th>
                <th scope="col">{t("agents.score")}</th>
                <th scope="col">{t("agents.state")}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry, i) => (
                <tr key={entry.name} data-agent={entry.name} aria-selected={i === selected ? "true" : undefined}>
                  <td>
                    <Link to={`agents/${encodeURIComponent(entry.name)}`}>{entry.name}</Link>
                  </td>
                  <td>
                    <HealthMark state={entry.health.state} />
                    {entry.health.sentence && <div class="soft">{entry.health.sentence}</div>}
                  </td>
                  <td>
                    {entry.description}
                    <ul class="plain soft">
                      {(hits?.find((hit) => hit.agent === entry.name)?.skills ?? entry.skills ?? []).map((skill) => (
                        <li key={skill.id}>
                          {skill.name}
                          {"why" in skill && skill.why.length > 0 && ` · ${t("agents.why", { why: skill.why.join(", ") })}`}
                        </li>
                      ))}
                    </ul>
                  </td>
                  <td>{entry.score ?? "–"}</td>
                  <td>
                    {stateOf(entry)}
                    {entry.waiting && <div class="bad">{t("agents.changed")}</div>}
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

export function stateOf(entry: hub.Entry): string {
  const key = `entry.${entry.state}`;
  return has(key) ? t(key) : entry.state;
}

/** Take an address, and say what was found there. */
function AddAgent({ onAdded }: { onAdded: () => void }) {
  const [url, setUrl] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [added, setAdded] = useState<hub.Entry | null>(null);
  const add = async () => {
    setBusy(true);
    setError(null);
    setAdded(null);
    try {
      const entry = await hub.add({ url: url.trim() });
      setAdded(entry);
      setUrl("");
      onAdded();
      // Probed at once, so that the line below says how it is.
      setAdded(await hub.act(entry.name, "probe").catch(() => entry));
      onAdded();
    } catch (wrong) {
      setError(wrong);
    } finally {
      setBusy(false);
    }
  };
  return (
    <details class="card" open={query.value.has("add")}>
      <summary>{t("add.title")}</summary>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <label class="grow">
          {t("add.url")} <input id="add-url" type="url" required value={url} onInput={(event) => setUrl(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary" disabled={isBusy}>
          {isBusy ? t("add.busy") : t("add.button")}
        </button>
      </form>
      <div role="status">
        {added && (
          <dl data-added={added.name}>
            <dt>{t("agents.name")}</dt>
            <dd>
              <Link to={`agents/${encodeURIComponent(added.name)}`}>{added.name}</Link> · {stateOf(added)}
            </dd>
            <dt>{t("add.read")}</dt>
            <dd>
              {(added.interfaces ?? []).map((one) => `${one.protocolBinding} ${one.protocolVersion}`).join(" · ")}
            </dd>
            <dt>{t("add.signature")}</dt>
            <dd>{added.signature}</dd>
            {(added.notes ?? []).length > 0 && (
              <>
                <dt>{t("add.repairs")}</dt>
                <dd>
                  <ul>
                    {(added.notes ?? []).map((note) => (
                      <li key={note}>{note}</li>
                    ))}
                  </ul>
                </dd>
              </>
            )}
            <dt>{t("agents.health")}</dt>
            <dd>
              <HealthMark state={added.health.state} /> {added.health.sentence}{" "}
              {added.health.at_ms ? moment(added.health.at_ms) : ""}
            </dd>
          </dl>
        )}
      </div>
      {error !== null && <Trouble error={error} />}
    </details>
  );
}
