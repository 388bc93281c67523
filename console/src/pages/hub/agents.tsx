/** The hub's agents: all of them, or what fits a request; and one more by its address. */

import { useEffect, useState } from "preact/hooks";
import * as hub from "../../api/hub";
import { has, moment, number, t } from "../../i18n";
import { go, query } from "../../state";
import { Link, Segments, Skeleton, Trouble } from "../../ui/elements";
import { useRows } from "../../ui/keys";
import { usePolled } from "../../ui/polled";
import { visible } from "../../ui/text";

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

/** Agents in trouble first, then those that wait, then by name. */
const ORDER = ["broken", "down", "degraded", "locked", "new", "up", "gone"];

export default function Agents() {
  const { value, error: unread, load } = usePolled(hub.agents, 3000);
  const found = value?.agents ?? null;
  const [hits, setHits] = useState<hub.Hit[] | null>(null);
  const [error, setError] = useState<unknown>(null);
  const [words, setWords] = useState(query.value.get("q") ?? "");
  const asked = query.value.get("q") ?? "";
  const health = query.value.get("health") ?? "";
  const isAdding = query.value.has("add");

  useEffect(() => {
    setError(null);
    if (!asked) return setHits(null);
    hub
      .search(asked)
      .then((result) => setHits(result.untrusted))
      .catch(setError);
  }, [asked]);

  const all = found ?? [];
  const counts = new Map<string, number>();
  for (const entry of all) counts.set(entry.health.state, (counts.get(entry.health.state) ?? 0) + 1);
  const states = [...counts.keys()].sort((a, b) => ORDER.indexOf(a) - ORDER.indexOf(b));
  const order = new Map((hits ?? []).map((hit, i) => [hit.agent, i]));
  const shown = all
    .filter((entry) => (!hits || order.has(entry.name)) && (!health || entry.health.state === health))
    .sort((a, b) => (order.get(a.name) ?? 0) - (order.get(b.name) ?? 0));
  const selected = useRows(shown.length, (i) => {
    const entry = shown[i];
    if (entry) go(`agents/${encodeURIComponent(entry.name)}`);
  });
  return (
    <>
      <div class="head">
        <h1>
          {t("agents.title")} {!!all.length && <span class="soft">{number(value?.total ?? all.length)}</span>}
        </h1>
        {!isAdding && (
          <Link to="agents" query={{ q: asked, health, add: "1" }} class="button primary">
            {t("add.title")}
          </Link>
        )}
      </div>
      {(error ?? unread) !== null && <Trouble error={error ?? unread} onRetry={() => (setError(null), load())} />}
      {isAdding && <AddAgent onAdded={load} onClose={() => go("agents", { q: asked, health }, true)} />}
      <form
        class="row filters"
        onSubmit={(event) => {
          event.preventDefault();
          go("agents", { q: words, health });
        }}
      >
        <input
          id="search"
          class="grow"
          type="search"
          aria-label={t("agents.search")}
          placeholder={t("agents.search")}
          value={words}
          onInput={(event) => setWords(event.currentTarget.value)}
        />
        <button type="submit">{t("agents.find")}</button>
        {states.length > 1 && (
          <Segments
            of={t("agents.health")}
            names={["", ...states]}
            active={health}
            label={(name) => (name ? `${healthWord(name)} ${number(counts.get(name) ?? 0)}` : t("common.all"))}
            onChoose={(name) => go("agents", { q: asked, health: name }, true)}
          />
        )}
      </form>
      {!found && unread === null && <Skeleton />}
      {found && !found.length && <p class="empty">{t("agents.empty")}</p>}
      {found && found.length > 0 && !shown.length && <p class="empty">{t("agents.nothing")}</p>}
      {shown.length > 0 && (
        <div class="table folds" tabIndex={0}>
          <table>
            <caption class="hidden">{t("agents.table")}</caption>
            <thead>
              <tr>
                <th scope="col">{t("agents.name")}</th>
                <th scope="col">{t("agents.health")}</th>
                <th scope="col">{t("agent.skills")}</th>
                <th scope="col" class="numbers">
                  {t("agents.score")}
                </th>
                <th scope="col">{t("agents.state")}</th>
              </tr>
            </thead>
            <tbody>
              {shown.map((entry, i) => (
                <Row key={entry.name} entry={entry} hit={hits?.find((hit) => hit.agent === entry.name)} isSelected={i === selected} />
              ))}
            </tbody>
          </table>
        </div>
      )}
    </>
  );
}

const SKILLS = 4; // that a row names

function Row({ entry, hit, isSelected }: { entry: hub.Entry; hit: hub.Hit | undefined; isSelected: boolean }) {
  const skills = hit?.skills ?? entry.skills ?? [];
  const why = [...new Set((hit?.skills ?? []).flatMap((skill) => skill.why))];
  return (
    <tr
      data-agent={entry.name}
      aria-selected={isSelected ? "true" : undefined}
      onClick={(event) => {
        if (!(event.target as HTMLElement).closest("a")) go(`agents/${encodeURIComponent(entry.name)}`);
      }}
    >
      <td class="first">
        <Link to={`agents/${encodeURIComponent(entry.name)}`}>{entry.name}</Link>
        <span class="soft small under">{visible(entry.description)}</span>
        {why.length > 0 && <span class="soft small under">{t("agents.why", { why: why.join(", ") })}</span>}
      </td>
      <td>
        <HealthMark state={entry.health.state} />
        {entry.health.sentence && <span class="soft small under">{entry.health.sentence}</span>}
      </td>
      <td>
        <span class="chips">
          {skills.slice(0, SKILLS).map((skill) => (
            <span key={skill.id} class="chip">
              {visible(skill.name)}
            </span>
          ))}
          {skills.length > SKILLS && <span class="soft small">+{number(skills.length - SKILLS)}</span>}
        </span>
      </td>
      <td class="numbers">{entry.score ?? <span class="soft">–</span>}</td>
      <td class={entry.state === "approved" ? "soft" : ""}>
        {stateOf(entry)}
        {entry.waiting && <span class="bad small under">{t("agents.changed")}</span>}
      </td>
    </tr>
  );
}

export function stateOf(entry: hub.Entry): string {
  const key = `entry.${entry.state}`;
  return has(key) ? t(key) : entry.state;
}

/** Take an address, and say what was found there. */
function AddAgent({ onAdded, onClose }: { onAdded: () => void; onClose: () => void }) {
  const [url, setUrl] = useState("");
  const [isBusy, setBusy] = useState(false);
  const [error, setError] = useState<unknown>(null);
  const [added, setAdded] = useState<hub.Entry | null>(null);
  useEffect(() => document.querySelector<HTMLElement>("#add-url")?.focus(), []);
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
    <section class="card" id="add" aria-label={t("add.title")}>
      <h2>{t("add.title")}</h2>
      <form
        class="row"
        onSubmit={(event) => {
          event.preventDefault();
          void add();
        }}
      >
        <label class="grow">
          {t("add.url")}{" "}
          <input id="add-url" class="wide" type="url" placeholder="https://hr.corp.example" required value={url} onInput={(event) => setUrl(event.currentTarget.value)} />
        </label>
        <button type="submit" class="primary low" disabled={isBusy}>
          {isBusy ? t("add.busy") : t("add.button")}
        </button>
        <button type="button" class="low" onClick={onClose}>
          {t("common.close")}
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
    </section>
  );
}
