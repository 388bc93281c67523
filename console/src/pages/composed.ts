/** The message that is being written to an agent: kept until it is sent, over other pages and reloads. */

import type { Message, Part } from "../api/types";
import { draftOf, keepDraft } from "../ui/drafts";

export interface Composed {
  text: string;
  skill: string;
  attached: Part[]; // files, and data of a message that is sent again
}

export const EMPTY: Composed = { text: "", skill: "", attached: [] };
const all = new Map<string, Composed>(); // by the agent's name

const keyOf = (agent: string) => `composer.${agent}`;

export function composedOf(agent: string): Composed {
  return all.get(agent) ?? { ...EMPTY, ...(JSON.parse(draftOf(keyOf(agent)) || "{}") as Partial<Composed>) };
}

export function compose(agent: string, composed: Composed): void {
  all.set(agent, composed);
  const isEmpty = !composed.text && !composed.attached.length;
  // Files may be too large to be kept over a reload: then the words are.
  const size = composed.attached.reduce((sum, part) => sum + (part.raw?.length ?? 0), 0);
  const kept = size > 1_000_000 ? { ...composed, attached: [] } : composed;
  keepDraft(keyOf(agent), isEmpty ? "" : JSON.stringify(kept));
}

/** A message as it can be sent once more: its words, its files, its data and the skill it named. */
export function composedFrom(message: Message | undefined): Composed {
  const parts = message?.parts ?? [];
  const isWords = (part: Part) => part.text !== undefined && !part.mediaType && !part.filename;
  const skill = message?.metadata?.["skill"];
  return {
    text: parts.filter(isWords).map((part) => part.text).join("\n"),
    skill: typeof skill === "string" ? skill : "",
    attached: parts.filter((part) => !isWords(part)),
  };
}
