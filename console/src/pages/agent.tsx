/** The agent: its card in words, and its skills to try. */

import { useEffect, useState } from "preact/hooks";
import * as http from "../api/http";
import type { Json, Schema, Skill } from "../api/types";
import { SchemaForm } from "../forms/question";
import { number, t } from "../i18n";
import { ExternalLink } from "../render/markdown";
import { me } from "../state";
import { Copy, Link, Trouble } from "../ui/elements";
import { JsonTree } from "../ui/json";
import { visible } from "../ui/text";
import { Interfaces } from "./interfaces";
import { copies, type Wish, tryIt } from "./try";

export default function Agent() {
  const { card } = me.value!;
  const schemes = Object.keys(card.securitySchemes ?? {});
  const extensions = (card.capabilities["extensions"] ?? []) as { uri: string; description?: string }[];
  return (
    <>
      <div class="head">
        <h1>{visible(card.name)}</h1>
        <Copy text={() => JSON.stringify(card, null, 2)} label={t("agent.copy")} />
        <Link to="chat" class="button primary">
          {t("entry.chat")}
        </Link>
      </div>
      <p class="row facts">
        <span>{visible(card.description)}</span>
        <span>{t("agent.version", { version: card.version })}</span>
        {card.provider && <span>{visible(card.provider.organization)}</span>}
        {card.documentationUrl && <ExternalLink to={card.documentationUrl} words={card.documentationUrl} />}
      </p>
      <div class="with-facts">
        <div>
          <h2>
            {t("agent.skills")} <span class="soft">{number(card.skills.length)}</span>
          </h2>
          <div class="card rows">
            {card.skills.map((skill) => (
              <SkillView key={skill.id} skill={skill} />
            ))}
          </div>
        </div>
        <div>
          <h2>{t("agent.interfaces")}</h2>
          <Interfaces of={card.supportedInterfaces} />
          <h2>{t("agent.security")}</h2>
          <div class="card">
            {schemes.length ? (
              <span class="chips">
                {schemes.map((name) => (
                  <span key={name} class="chip">
                    {visible(name)}
                  </span>
                ))}
              </span>
            ) : (
              <p class="soft">{t("agent.security.none")}</p>
            )}
          </div>
          {extensions.length > 0 && (
            <>
              <h2>{t("agent.extensions")}</h2>
              <ul class="plain card ranked">
                {extensions.map((one) => (
                  <li key={one.uri}>
                    <span class="mono across">{visible(one.uri)}</span>
                    {one.description && <span class="soft small across">{visible(one.description)}</span>}
                  </li>
                ))}
              </ul>
            </>
          )}
          <h2>{t("agent.card")}</h2>
          <div class="card">
            <JsonTree value={card as unknown as Json} isOpen={false} />
          </div>
        </div>
      </div>
    </>
  );
}

function SkillView({ skill }: { skill: Skill }) {
  const [isOpen, setOpen] = useState(false);
  return (
    <section aria-label={skill.name} data-skill={skill.id}>
      <div class="row">
        <h3 class="fill">
          {visible(skill.name)}{" "}
          {(skill.tags ?? [])
            .filter((tag) => tag !== skill.id)
            .map((tag) => (
              <span key={tag} class="chip">
                {visible(tag)}
              </span>
            ))}
        </h3>
        <button type="button" aria-expanded={isOpen} onClick={() => setOpen(!isOpen)}>
          {t("agent.try")}
        </button>
      </div>
      <p class="soft">{visible(skill.description)}</p>
      {isOpen && <WithForms skill={skill} />}
    </section>
  );
}

/** Ask the server how messages are sent, then let one be. */
function WithForms({ skill }: { skill: Skill }) {
  const [forms, setForms] = useState<http.Calls | null>(null);
  const [error, setError] = useState<unknown>(null);
  const load = () => {
    setError(null);
    http.calls(me.value!.card.name).then(setForms, setError);
  };
  useEffect(load, []);
  if (error !== null) return <Trouble error={error} onRetry={load} />;
  return forms && <Try skill={skill} forms={forms} />;
}

function Try({ skill, forms }: { skill: Skill; forms: http.Calls }) {
  const info = me.value!;
  const schema = info.schemas[skill.id]?.input ?? null;
  const isText = !schema || (schema["type"] === "string" && !schema["enum"]);
  const [version, setVersion] = useState(info.versions[0]!);
  const [binding, setBinding] = useState("");
  const bindings = Object.keys(forms[version]!);
  const [isStream, setStream] = useState(false);
  const [text, setText] = useState(skill.examples?.[0] ?? "");
  const [json, setJson] = useState("");
  const [sent, setSent] = useState("");
  const [count, setCount] = useState(0); // of calls that were answered
  const [answer, setAnswer] = useState("");
  const wish = (given: string): Wish => ({
    skill: skill.id,
    version,
    binding: bindings.includes(binding) ? binding : bindings[0]!,
    isStream,
    text: isText ? given : undefined,
    json: isText ? undefined : given,
  });
  const send = async (given: string) => {
    setAnswer("");
    const { request } = await tryIt(forms, wish(given), (piece) => setAnswer((now) => now + piece));
    setSent(request);
    setCount((now) => now + 1);
  };
  const now = isText ? text : json;
  return (
    <div>
      <div class="row">
        <label>
          {t("try.version")}{" "}
          <select value={version} onChange={(event) => setVersion(event.currentTarget.value)}>
            {info.versions.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <label>
          {t("try.binding")}{" "}
          <select
            value={wish("").binding}
            onChange={(event) => setBinding(event.currentTarget.value)}
            disabled={bindings.length < 2}
          >
            {bindings.map((one) => (
              <option key={one}>{one}</option>
            ))}
          </select>
        </label>
        <label>
          <input type="checkbox" checked={isStream} onChange={(event) => setStream(event.currentTarget.checked)} />{" "}
          {t("try.stream")}
        </label>
      </div>
      {isText ? (
        <form
          class="field"
          onSubmit={(event) => {
            event.preventDefault();
            void send(text);
          }}
        >
          <label for={`try-${skill.id}`}>{t("try.text")}</label>
          <textarea id={`try-${skill.id}`} rows={2} value={text} onInput={(event) => setText(event.currentTarget.value)} />
          <div class="row">
            <button type="submit" class="primary">
              {t("try.send")}
            </button>
          </div>
        </form>
      ) : (
        <SchemaForm schema={schema as Schema} label={t("try.send")} onSend={(value) => void send(value)} onDraft={setJson} />
      )}
      {now && (
        <p class="row">
          {t("try.copyas")}
          {Object.entries(copies(info, forms, wish(now))).map(([name, line]) => (
            <Copy key={name} label={name} text={() => line} />
          ))}
        </p>
      )}
      {sent && (
        <>
          <h3>{t("try.request")}</h3>
          <pre tabIndex={0} data-request={skill.id}>
            {sent}
          </pre>
          <h3>{t("try.answer")}</h3>
          <pre tabIndex={0} data-answer={skill.id} data-count={count}>
            {answer}
          </pre>
        </>
      )}
    </div>
  );
}
