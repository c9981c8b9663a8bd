#!/usr/bin/env node
/** Runs on a node and listens, like a daemon of the node: each connection gets a line of JSON that names it. */
import { createServer } from 'node:net';
import { nodeProgram, nodeProgramPort } from './probes.ts';

const server = createServer((socket) => {
  socket.on('error', () => {}); // the client may have closed
  socket.end(`${JSON.stringify({ pod: nodeProgram })}\n`);
});
server.listen(nodeProgramPort, '::', () => process.stdout.write('listens\n'));
