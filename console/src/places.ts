/** The pages in the rail, in groups, each with the letter that goes to it after `g`. */

import { me } from "./state";

const ALL = [
  { to: "", name: "now", key: "n", group: "work", in: "both" },
  { to: "inbox", name: "inbox", key: "i", group: "work", in: "both" },
  { to: "tasks", name: "tasks", key: "t", group: "work", in: "both" },
  { to: "chat", name: "chat", key: "h", group: "work", in: "both" },
  { to: "agent", name: "agent", key: "a", group: "agents", in: "agent" },
  { to: "agents", name: "agents", key: "a", group: "agents", in: "hub" },
  { to: "trace", name: "trace", key: "r", group: "agents", in: "hub" },
  { to: "live", name: "live", key: "l", group: "wire", in: "both" },
  { to: "pushes", name: "pushes", key: "p", group: "wire", in: "both" },
  { to: "admin", name: "admin", key: "d", group: "own", in: "hub" },
  { to: "settings", name: "settings", key: "s", group: "own", in: "both" },
] as const;

export type Place = (typeof ALL)[number];

/** What is for operators only: it shows what all callers do. */
const OPERATORS = new Set<string>(["now", "inbox", "tasks", "trace", "live", "pushes", "admin"]);

/** The pages of this server: an agent's, or a hub's; for an operator, or for somebody who only calls. */
export function places(): Place[] {
  const mode = me.value?.mode ?? "agent";
  const isOperator = me.value?.isOperator !== false;
  return ALL.filter((place) => (place.in === "both" || place.in === mode) && (isOperator || !OPERATORS.has(place.name)));
}
