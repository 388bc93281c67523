/** Ctrl-K: pages, agents, tasks and actions by a few letters. */

import { useEffect, useRef, useState } from "preact/hooks";
import * as hub from "../api/hub";
import * as http from "../api/http";
import { language, setLanguage, t } from "../i18n";
import { addressOf } from "../pages/address";
import { places } from "../places";
import { choose, go, me, theme } from "../state";
import { State } from "./elements";
import { visible } from "./text";

interface Offer {
  key: string;
  name: string;
  kind: string;
  state?: string;
  act: () => void;
}

const PAUSE_MS = 150;

function pagesAndActions(): Offer[] {
  const kind = t("find.page");
  const found: Offer[] = places().map((place) => ({
    key: `page ${place.name}`,
    name: t(`nav.${place.name}`),
    kind,
    act: () => go(place.to),
  }));
  const isDark = theme.value === "dark";
  const action = (key: string, name: string, act: () => void) => found.push({ key, name, kind: t("find.action"), act });
  action("new", t("chat.new"), () => go("chat", { new: "1" }));
  action("failed", t("find.failed"), () => go("tasks", { state: "failed" }));
  action("theme", isDark ? t("find.light") : t("find.dark"), () => (theme.value = isDark ? "light" : "dark"));
  action("language", language.value === "zh" ? "English" : "中文", () => setLanguage(language.value === "zh" ? "en" : "zh"));
  if (me.value!.mode === "hub") action("add", t("add.title"), () => go("agents", { add: "1" }));
  for (const name of me.value!.agents) {
    found.push({ key: `agent ${name}`, name: visible(name), kind: t("find.agent"), act: () => void choose(name).then(() => go("agent")) });
  }
  return found;
}

async function found(words: string, signal: { isOld: boolean }): Promise<Offer[]> {
  const isHub = me.value!.mode === "hub";
  const [page, entries] = await Promise.all([
    me.value!.isOperator ? http.tasks({ find: words, limit: "8" }) : Promise.resolve({ tasks: [] }),
    isHub ? hub.agents() : Promise.resolve({ agents: [] as hub.Entry[] }),
  ]);
  if (signal.isOld) return [];
  const agents = entries.agents.filter((one) => one.name.toLowerCase().includes(words.toLowerCase())).slice(0, 6);
  return [
    ...agents.map((one) => ({
      key: `agent ${one.name}`,
      name: visible(one.name),
      kind: t("find.agent"),
      act: () => go(`agents/${encodeURIComponent(one.name)}`),
    })),
    ...page.tasks.map((task) => ({
      key: `task ${task.id}`,
      name: visible(task.title || task.id),
      kind: t("find.task"),
      state: task.state,
      act: () => go(`tasks/${encodeURIComponent(task.id)}`, addressOf(task)),
    })),
  ];
}

export default function Palette({ onClose }: { onClose: () => void }) {
  const [words, setWords] = useState("");
  const [more, setMore] = useState<Offer[]>([]);
  const [row, setRow] = useState(0);
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => dialog.current!.showModal(), []);
  useEffect(() => {
    setMore([]);
    if (words.trim().length < 2) return undefined;
    const signal = { isOld: false };
    const timer = setTimeout(() => void found(words.trim(), signal).then((offers) => !signal.isOld && setMore(offers)), PAUSE_MS);
    return () => {
      signal.isOld = true;
      clearTimeout(timer);
    };
  }, [words]);
  const wanted = words.trim().toLowerCase();
  const offers = [...pagesAndActions().filter((one) => one.name.toLowerCase().includes(wanted)), ...more];
  const at = Math.min(row, offers.length - 1);
  const take = (offer: Offer | undefined) => {
    if (!offer) return;
    onClose();
    offer.act();
  };
  const onKey = (event: KeyboardEvent) => {
    if (event.key === "ArrowDown") setRow(Math.min(offers.length - 1, at + 1));
    else if (event.key === "ArrowUp") setRow(Math.max(0, at - 1));
    else if (event.key === "Enter") take(offers[at]);
    else return;
    event.preventDefault();
  };
  return (
    <dialog ref={dialog} class="palette" aria-label={t("nav.find")} onClose={onClose}>
      <input
        role="combobox"
        aria-expanded="true"
        aria-controls="offers"
        aria-activedescendant={offers[at] ? `offer-${at}` : undefined}
        aria-label={t("nav.find")}
        placeholder={t("find.placeholder")}
        value={words}
        onInput={(event) => {
          setWords(event.currentTarget.value);
          setRow(0);
        }}
        onKeyDown={onKey}
      />
      <ul id="offers" class="plain" role="listbox" aria-label={t("nav.find")}>
        {offers.map((offer, i) => (
          <li key={offer.key} id={`offer-${i}`} role="option" aria-selected={i === at} onClick={() => take(offer)}>
            <span>{offer.name}</span>
            {offer.state && <State word={offer.state} />}
            <small>{offer.kind}</small>
          </li>
        ))}
      </ul>
      {!offers.length && <p class="soft">{t("find.nothing")}</p>}
    </dialog>
  );
}
