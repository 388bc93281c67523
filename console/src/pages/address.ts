/** The address of a task: its id, and whose it is. A hub has tasks of many agents. */

import type { Summary } from "../api/types";
import { me } from "../state";

export function addressOf(task: Pick<Summary, "tenant" | "caller" | "agent">): Record<string, string> {
  const isOther = me.value!.mode === "hub" || me.value!.agents.length > 0;
  return { tenant: task.tenant, caller: task.caller, agent: isOther ? task.agent : "" };
}

/** The name of a hub's entry: its agent has a number after the name. */
export const entryName = (agent: string): string => agent.replace(/\.[^.]*$/, "");

export const GUEST = "guest//guest"; // whoever calls a hub without a login

/** Who called. What stands before the last stroke says who vouches for the name. */
export const callerName = (caller: string): string => caller.slice(caller.lastIndexOf("/") + 1);
