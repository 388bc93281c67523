/** Settings: language, theme, keys, and the browsers that are logged in. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import { language, moment, setLanguage, t, type Language } from "../i18n";
import { hasKeys, me, onChange, theme, type Theme } from "../state";
import { Copy } from "../ui/elements";

export default function Settings() {
  const [logins, setLogins] = useState<http.Login[]>([]);
  const [link, setLink] = useState("");
  const load = () => void http.logins().then((found) => setLogins(found.logins));
  useEffect(() => {
    load();
    return onChange((told) => told.isBack && load());
  }, []);
  return (
    <>
      <h1>{t("settings.title")}</h1>
      <div class="field">
        <label for="language">{t("settings.language")}</label>
        <select
          id="language"
          value={language.value}
          onChange={(event) => setLanguage(event.currentTarget.value as Language)}
        >
          <option value="en">English</option>
          <option value="zh">中文</option>
        </select>
      </div>
      <div class="field">
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
      </div>
      <p>
        <label>
          <input
            type="checkbox"
            checked={hasKeys.value}
            onChange={(event) => {
              hasKeys.value = event.currentTarget.checked;
            }}
          />{" "}
          {t("settings.keys")}
        </label>
      </p>
      <h2>{t("settings.logins")}</h2>
      <ul>
        {logins.map((login) => (
          <li key={login.id}>
            {login.agent} <span class="soft">{moment(login.seen)}</span>{" "}
            {login.own ? (
              <strong>{t("settings.logins.own")}</strong>
            ) : (
              <button type="button" onClick={() => void http.closeLogin(login.id).then(load)}>
                {t("settings.logins.close")}
              </button>
            )}
          </li>
        ))}
      </ul>
      <h2>{t("settings.link")}</h2>
      <button
        type="button"
        onClick={() => void http.newLink().then(({ key }) => setLink(`${me.value!.base}/console/?key=${key}`))}
      >
        {t("settings.link.make")}
      </button>
      {link && (
        <p>
          {t("settings.link.text")} <code>{link}</code> <Copy text={() => link} />
        </p>
      )}
    </>
  );
}
