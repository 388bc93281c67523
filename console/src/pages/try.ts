/** One call in any version over any HTTP binding; and the same as a line to type. */

import { type Calls, newId } from "../api/http";
import { sessionHeaders } from "../api/session";
import type { Me } from "../api/types";

export interface Wish {
  skill: string;
  version: string;
  binding: string;
  isStream: boolean;
  text?: string;
  json?: string;
}

interface Call {
  path: string;
  headers: Record<string, string>;
  body: string;
}

/** Fill in the form that the server has for a call. */
export function callOf(forms: Calls, wish: Wish): Call {
  const form = forms[wish.version]![wish.binding]![wish.isStream ? "stream" : "send"];
  const values: Record<string, string> = {
    '"%id%"': JSON.stringify(newId()),
    '"%skill%"': JSON.stringify(wish.skill),
    '"%text%"': JSON.stringify(wish.text ?? ""),
    '{"%data%":true}': wish.json ?? "null", // digit by digit as it was typed
  };
  const body = wish.json === undefined ? form.body.text : form.body.data;
  return { ...form, body: body.replace(/"%(?:id|skill|text)%"|\{"%data%":true\}/g, (found) => values[found]!) };
}

export async function tryIt(
  forms: Calls,
  wish: Wish,
  onPiece: (text: string) => void,
): Promise<{ request: string }> {
  const call = callOf(forms, wish);
  const named = Object.entries(call.headers).map(([name, value]) => `${name}: ${value}`);
  const request = `POST ${call.path}\n${named.join("\n")}\n\n${pretty(call.body)}`;
  const response = await fetch(call.path, {
    method: "POST",
    headers: { ...call.headers, ...sessionHeaders() },
    body: call.body,
  });
  onPiece(`HTTP ${response.status}\n\n`);
  if (!wish.isStream) onPiece(pretty(await response.text()));
  else {
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      onPiece(value);
    }
  }
  return { request };
}

function pretty(text: string): string {
  try {
    // Numbers past 2^53 would change: then the text stays as it is.
    if (/\d{16,}/.test(text)) return text;
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

function quoted(text: string): string {
  return `'${text.replaceAll("'", `'\\''`)}'`;
}

/** The same call as a line for a shell, and as a program. */
export function copies(info: Me, forms: Calls, wish: Wish): { accord: string; curl: string; Python: string } {
  const call = callOf(forms, wish);
  const headers = Object.entries(call.headers).map(([name, value]) => `-H ${quoted(`${name}: ${value}`)}`);
  const what = wish.json === undefined ? quoted(wish.text ?? "") : `--data ${quoted(wish.json)}`;
  const content = wish.json === undefined ? JSON.stringify(wish.text) : pythonJson(wish.json);
  return {
    accord: `accord send ${info.base} ${what} --skill ${quoted(wish.skill)}${wish.isStream ? " --stream" : ""}`,
    curl: `curl -sN ${info.base}${call.path} ${headers.join(" ")} -d ${quoted(call.body)}`,
    Python: [
      "from accord import connect_sync",
      "",
      `with connect_sync(${JSON.stringify(info.base)}) as agent:`,
      `    print(agent.send(${content}, skill=${JSON.stringify(wish.skill)}).text)`,
    ].join("\n"),
  };
}

function pythonJson(json: string): string {
  return json.replace(/"(?:[^"\\]|\\.)*"|\btrue\b|\bfalse\b|\bnull\b/g, (found) =>
    found === "true" ? "True" : found === "false" ? "False" : found === "null" ? "None" : found,
  );
}
