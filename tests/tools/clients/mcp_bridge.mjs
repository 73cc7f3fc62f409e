// A server on stdio behind one HTTP address, for the conformance suite, which knows no other road. Each session of HTTP has
// a process of its own; progress is not passed on. Prints its address.
import { spawn } from "node:child_process";
import { randomUUID } from "node:crypto";
import http from "node:http";
import { createInterface } from "node:readline";

const [program, ...args] = process.argv.slice(2);
const sessions = new Map();

function open() {
  const child = spawn(program, args, { stdio: ["pipe", "pipe", "inherit"] });
  const waits = new Map();
  let count = 0;
  createInterface({ input: child.stdout }).on("line", (line) => {
    const message = JSON.parse(line);
    const waiting = waits.get(message.id);
    waits.delete(message.id);
    waiting?.done({ ...message, id: waiting.id });
  });
  const write = (message) => child.stdin.write(JSON.stringify(message) + "\n");
  return (message, done) => {
    if (message.id === undefined || !message.method) return write(message), done(null);
    const own = `bridge-${count++}`;
    waits.set(own, { id: message.id, done });
    write({ ...message, id: own });
  };
}

const server = http.createServer((request, response) => {
  if (request.method !== "POST") return response.writeHead(405).end();
  let body = "";
  request.on("data", (piece) => (body += piece));
  request.on("end", () => {
    let session = request.headers["mcp-session-id"];
    if (!sessions.has(session)) sessions.set((session = randomUUID()), open());
    sessions.get(session)(JSON.parse(body), (answer) => {
      if (answer === null) return response.writeHead(202).end();
      response.writeHead(200, { "content-type": "application/json", "mcp-session-id": session });
      response.end(JSON.stringify(answer));
    });
  });
});
server.listen(0, "127.0.0.1", () => console.log(`http://127.0.0.1:${server.address().port}/mcp`));
