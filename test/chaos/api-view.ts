import { rmSync } from 'node:fs';
import { createServer, type IncomingMessage, type Server, type ServerResponse } from 'node:http';
import { request } from 'node:https';
import type { Socket } from 'node:net';
import type { Api } from './api.ts';
import { answered, changeOf, isEmptied, type Otherwise, passNothing } from './api-contradictions.ts';
import { type Change, passChanged, passChangedEvents } from './changed-view.ts';
import { passLate } from './late-events.ts';
import { Random } from './random.ts';

/**
 * View of a fresh agent: reads are forwarded, writes are dry runs (`dryRun=All`). View of the tested agent: writes are forwarded, and some events
 * are delayed or duplicated. Pods may be shown to a fresh agent in a modified form.
 */
type Viewer = { readonly is: 'virgin'; readonly pods?: () => Change } | { readonly is: 'tried'; readonly seed: number };

/** The API server as an agent sees it. Plain HTTP on a unix socket, with the driver's own credentials. */
export class ApiView {
  readonly #server: Server;
  readonly #sockets = new Set<Socket>();
  #otherwise: Otherwise | undefined;

  private constructor(server: Server) {
    this.#server = server;
    server.on('connection', (socket: Socket) => {
      this.#sockets.add(socket);
      socket.once('close', () => this.#sockets.delete(socket));
    });
  }

  static async open(socketPath: string, api: Api, viewer: Viewer): Promise<ApiView> {
    rmSync(socketPath, { force: true });
    let asked = 0;
    const view: ApiView = new ApiView(
      createServer((request, answer) => {
        if (view.#otherwise !== undefined && answered(view.#otherwise, request, answer)) return;
        pass(api, viewer, { asked: request, answer, number: asked++, otherwise: view.#otherwise });
      }),
    );
    await new Promise<void>((resolve, reject) => {
      view.#server.once('error', reject);
      view.#server.listen(socketPath, resolve);
    });
    return view;
  }

  /** Sets the false state for new requests. */
  tell(otherwise: Otherwise | undefined): void {
    this.#otherwise = otherwise;
  }

  /** Ends all connections; new ones are accepted. */
  cut(): void {
    for (const socket of this.#sockets) socket.destroy();
  }

  close(): void {
    this.#server.close();
    this.cut();
  }
}

const isOfPods = /\/pods(?:[/?]|$)/;

interface Exchange {
  readonly asked: IncomingMessage;
  readonly answer: ServerResponse;
  readonly number: number;
  readonly otherwise: Otherwise | undefined;
}

function pass(api: Api, viewer: Viewer, { asked, answer, number, otherwise }: Exchange): void {
  const { method = 'GET', url = '/' } = asked;
  const path = method === 'GET' || viewer.is === 'tried' ? url : `${url}${url.includes('?') ? '&' : '?'}dryRun=All`;
  const sent = request(api.options(method, path, forwarded(asked)), (got) => {
    const ofViewer = viewer.is === 'virgin' && isOfPods.test(url) ? viewer.pods?.() : undefined;
    const change = got.statusCode === 200 ? (changeOf(otherwise, url) ?? ofViewer) : undefined;
    const { 'content-length': length, ...headers } = got.headers;
    answer.writeHead(got.statusCode ?? 502, change === undefined && length !== undefined ? got.headers : headers);
    answer.flushHeaders();
    // A watch that the server ends without its last chunk ends so here, too.
    got.once('error', () => answer.destroy());
    const watches = /[?&]watch=(?:1|true)/.test(url);
    if (otherwise !== undefined && watches && isEmptied(otherwise, url)) passNothing(got, answer).catch(() => answer.destroy());
    else if (change !== undefined) (watches ? passChangedEvents : passChanged)(got, answer, change).catch(() => answer.destroy());
    else if (viewer.is === 'tried' && got.statusCode === 200 && watches)
      passLate(got, answer, new Random(viewer.seed, number)).catch(() => answer.destroy());
    else got.pipe(answer);
  });
  sent.once('error', () => answer.destroy());
  answer.once('close', () => sent.destroy());
  asked.pipe(sent);
}

function forwarded({ headers }: IncomingMessage): Record<string, string> {
  const names = ['accept', 'content-type', 'content-length', 'transfer-encoding'];
  return Object.fromEntries(names.flatMap((name) => (typeof headers[name] === 'string' ? [[name, headers[name]]] : [])));
}

/** Kubeconfig of an agent that uses a view, once the view listens on this address. */
export function plainKubeconfig(server: string): object {
  return {
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [{ name: 'view', cluster: { server } }],
    users: [{ name: 'view', user: {} }],
    contexts: [{ name: 'view', context: { cluster: 'view', user: 'view' } }],
    'current-context': 'view',
  };
}
