// Asks an agent with Node's fetch, which keeps its connections; then reads a stream.

const [url, ...bodies] = process.argv.slice(2);
const headers = { "content-type": "application/json", "a2a-version": "1.0" };
for (const body of bodies) {
  const answer = await fetch(url, { method: "POST", headers, body });
  console.log(answer.status, "HTTP_1_1", (await answer.text()).replaceAll("\n", " "));
}
