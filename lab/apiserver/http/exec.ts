import type { ChildProcessWithoutNullStreams } from 'node:child_process';
import type { IncomingMessage } from 'node:http';
import type { Duplex } from 'node:stream';
import { type WebSocket, WebSocketServer } from 'ws';
import { ApiError } from '../errors/api-error.ts';
import type { ApiRequest } from './api-request.ts';

/** A program to run in a container. */
interface ExecRequest {
  readonly namespace: string;
  readonly pod: string;
  readonly container: string;
  readonly command: readonly string[];
}

/** Starts a program with three pipes. @throws ApiError for a pod or a program that it does not run */
export type StartInPod = (request: ExecRequest) => ChildProcessWithoutNullStreams;

/** Connection of a request with `Upgrade`. */
export interface UpgradedConnection {
  readonly raw: IncomingMessage;
  readonly socket: Duplex;
  readonly head: Buffer;
}

const channels = { stdin: 0, stdout: 1, stderr: 2, status: 3 } as const;
const server = new WebSocketServer({ noServer: true, handleProtocols: (offered) => [...offered][0] ?? false });

/**
 * Runs a program in a pod over WebSocket, like the kubelet: `GET …/pods/NAME/exec` with the subprotocol `v5.channel.k8s.io` or `v4`.
 *
 * Source: k8s.io/streaming/pkg/httpstream/wsstream. @throws ApiError before the connection is accepted
 */
export function serveExec(request: ApiRequest, { raw, socket, head }: UpgradedConnection, start: StartInPod): void {
  const [, namespace = '', pod = ''] = /^\/api\/v1\/namespaces\/([^/]+)\/pods\/([^/]+)\/exec$/.exec(request.path) ?? [];
  if (pod === '') throw new ApiError(404, 'NotFound', `${request.path} cannot be upgraded`);
  const { query } = request;
  const child = start({ namespace, pod, container: query.get('container') ?? '', command: query.getAll('command') });
  const hasInput = query.get('stdin') === 'true';
  server.handleUpgrade(raw, socket, head, (client) => join(client, child, hasInput));
}

function join(client: WebSocket, child: ChildProcessWithoutNullStreams, hasInput: boolean): void {
  const send = (channel: number, bytes: Uint8Array): void => client.send(Buffer.concat([Buffer.of(channel), bytes]));
  child.stdout.on('data', (bytes: Buffer) => send(channels.stdout, bytes));
  child.stderr.on('data', (bytes: Buffer) => send(channels.stderr, bytes));
  child.stdin.on('error', () => undefined); // it reads no more
  if (!hasInput) child.stdin.end();
  client.on('message', (data: Buffer) => {
    if (data[0] === channels.stdin) child.stdin.write(data.subarray(1));
  });
  client.on('error', () => client.terminate());
  // A client that leaves ends the program's input, and what reads none of it.
  client.on('close', () => child.kill());
  child.on('error', (error) => {
    send(channels.status, Buffer.from(JSON.stringify({ status: 'Failure', reason: 'InternalError', message: error.message })));
    client.close(1000);
  });
  child.on('close', (code) => {
    send(channels.status, Buffer.from(exitStatus(code ?? 137)));
    client.close(1000);
  });
}

function exitStatus(code: number): string {
  if (code === 0) return JSON.stringify({ metadata: {}, status: 'Success' });
  const details = { causes: [{ reason: 'ExitCode', message: String(code) }] };
  return JSON.stringify({ status: 'Failure', reason: 'NonZeroExitCode', message: `command terminated with exit code ${code}`, details });
}
