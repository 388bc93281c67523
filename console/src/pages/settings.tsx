/** Settings: language, theme, keys, and the browsers that are logged in. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import { language, moment, setLanguage, t, type Language } from "../i18n";
import { hasKeys, me, onChange, theme, type Theme } from "../state";
import { Copy } from "../ui/elements";
import { visible } from "../ui/text";

export default function Settings() {
  const [logins, setLogins] = useState<http.Login[]>([]);
  const [link, setLink] = useState("");
  const load = () => void http.logins().then((found) => setLogins(found.logins));
  useEffect(() => {
    load();
    return onChange((told) => told.isBack && load());
  }, []);
  return (
    <div class="narrow">
      <div class="head">
        <h1>{t("settings.title")}</h1>
      </div>
      <section class="card settings">
        <label for="language">{t("settings.language")}</label>
        <select
          id="language"
          value={language.value}
          onChange={(event) => setLanguage(event.currentTarget.value as Language)}
        >
          <option value="en">English</option>
          <option value="zh">中文</option>
        </select>
        <label for="theme">{t("settings.theme")}</label>
        <select
          id="theme"
          value={theme.value}
          onChange={(event) => {
            theme.value = event.currentTarget.value as Theme;
          }}
        >
          <option value="system">{t("settings.theme.system")}</option>
          <option value="light">{t("settings.theme.light")}</option>
          <option value="dark">{t("settings.theme.dark")}</option>
        </select>
        <label for="keys">
          {t("settings.keys")}
          <span class="soft small under">{t("settings.keys.text")}</span>
        </label>
        <input
          id="keys"
          type="checkbox"
          checked={hasKeys.value}
          onChange={(event) => {
            hasKeys.value = event.currentTarget.checked;
          }}
        />
      </section>
      <h2>{t("settings.logins")}</h2>
      <ul class="plain card ranked">
        {logins.map((login) => (
          <li key={login.id}>
            <span title={login.agent}>{visible(browserOf(login.agent))}</span>
            {login.own ? (
              <span class="good">{t("settings.logins.own")}</span>
            ) : (
              <button type="button" onClick={() => void http.closeLogin(login.id).then(load)}>
                {t("settings.logins.close")}
              </button>
            )}
            <span class="soft small">{t("settings.logins.seen", { time: moment(login.seen) })}</span>
          </li>
        ))}
      </ul>
      <h2>{t("settings.link")}</h2>
      <div class="card">
        <div class="row">
          <span class="soft grow">{t("settings.link.text")}</span>
          <button
            type="button"
            onClick={() => void http.newLink().then(({ key }) => setLink(`${me.value!.base}/console/?key=${key}`))}
          >
            {t("settings.link.make")}
          </button>
        </div>
        {link && (
          <p class="row">
            <code class="grow">{link}</code> <Copy text={() => link} />
          </p>
        )}
      </div>
    </div>
  );
}

/** A browser by its name and system, as far as what it says of itself tells. */
export function browserOf(agent: string): string {
  const name = /(Edg|OPR|Firefox|HeadlessChrome|Chrome|Version)\/(\d+)/.exec(agent);
  const system = /Android|iPhone|iPad|Windows|Mac OS X|Linux/.exec(agent);
  if (!name) return agent;
  const words: { [token: string]: string } = { Edg: "Edge", OPR: "Opera", Version: "Safari", HeadlessChrome: "Chrome" };
  return `${words[name[1]!] ?? name[1]} ${name[2]}${system ? ` · ${system[0]}` : ""}`;
}
