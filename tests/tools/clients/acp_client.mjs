// An editor for tests: the official SDK as the client, driven by lines of JSON on standard input.
//   {"tag": 1, "call": "session/list", "params": {}}   a request; the answer is {"tag": 1, "result"} or {"tag": 1, "error"}
//   {"notify": "session/cancel", "params": {}}         a notification
//   {"choose": "allow_once"}                           how permission requests are answered from now on; null: not at all
// Everything that the agent says is a line: {"update"}, {"permission"}.
import { spawn } from "node:child_process";
import { createInterface } from "node:readline";
import { Readable, Writable } from "node:stream";
import { pathToFileURL } from "node:url";

const [sdk, program, ...args] = process.argv.slice(2);
const acp = await import(pathToFileURL(sdk).href);
const agent = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
const say = (line) => process.stdout.write(JSON.stringify(line) + "\n");
let choose = "allow_once";

const client = acp
  .client()
  .onNotification("session/update", ({ params }) => say({ update: params.update, session: params.sessionId }))
  .onRequest("session/request_permission", async ({ params }) => {
    say({ permission: params });
    if (choose === null) return new Promise(() => {});
    const option = params.options.find((option) => option.kind === choose);
    return { outcome: option ? { outcome: "selected", optionId: option.optionId } : { outcome: "cancelled" } };
  });
const connection = client.connect(acp.ndJsonStream(Writable.toWeb(agent.stdin), Readable.toWeb(agent.stdout)));

agent.on("exit", (code) => say({ exited: code }));
for await (const line of createInterface({ input: process.stdin })) {
  const wanted = JSON.parse(line);
  if ("choose" in wanted) choose = wanted.choose;
  else if (wanted.notify) await connection.agent.notify(wanted.notify, wanted.params);
  else
    connection.agent.request(wanted.call, wanted.params).then(
      (result) => say({ tag: wanted.tag, result }),
      (error) => say({ tag: wanted.tag, error: { code: error.code, message: error.message, data: error.data } }),
    );
}
agent.stdin.end();
