/** The login of this browser. The cookie, which scripts can't read, is half of its secret; the page keeps the
 *  other half and sends it as a header. Other ports of this host get the cookie too, but not what our origin keeps. */

const KEPT = "accord.session";

export function sessionHeaders(): Record<string, string> {
  return { "X-Accord-Session": localStorage.getItem(KEPT) ?? "none" };
}

/** Use the key of the link that this page was opened with, if there is one. */
export async function logIn(): Promise<void> {
  const key = new URLSearchParams(location.search).get("key");
  if (key === null) return;
  const response = await fetch("/console/api/login", {
    method: "POST",
    headers: { "Content-Type": "application/json", ...sessionHeaders() },
    body: JSON.stringify({ key }),
  });
  if (response.ok) localStorage.setItem(KEPT, ((await response.json()) as { secret: string }).secret);
  else if (response.status !== 403) throw new Error(`HTTP ${response.status}`);
  // It is used up: it is not to stay in the address. A browser that was logged in before still is.
  history.replaceState(null, "", location.pathname);
}
