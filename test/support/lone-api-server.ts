import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { type LabApiServer, startApiServer } from '../../lab/apiserver/api-server.ts';
import { listenTcpIn } from '../../lab/probe/sockets.ts';

/** The lab's API server without a lab: on this host, at a port that it keeps over restarts. */
export class LoneApiServer {
  /** Folder of its objects and of a test's files. */
  readonly dir: string;
  #api: LabApiServer;

  private constructor(dir: string, api: LabApiServer) {
    this.dir = dir;
    this.#api = api;
  }

  static async start(): Promise<LoneApiServer> {
    const dir = await mkdtemp('/tmp/seine-api-');
    const server = new LoneApiServer(dir, await startIn(dir, 0));
    await writeFile(server.kubeconfig, server.api.kubeconfig(server.url), { mode: 0o600 });
    return server;
  }

  /** The server since the last start. Its second listener is one that it opened itself. */
  get api(): LabApiServer {
    return this.#api;
  }

  get url(): string {
    return `https://127.0.0.1:${this.#api.ports[0]}`;
  }

  /** Path of the administrator's kubeconfig. */
  get kubeconfig(): string {
    return join(this.dir, 'kubeconfig');
  }

  async restart(): Promise<void> {
    await this.#api.close();
    this.#api = await startIn(this.dir, this.#api.ports[0] ?? 0);
  }

  async remove(): Promise<void> {
    await this.#api.close();
    await rm(this.dir, { recursive: true, force: true });
  }
}

function startIn(dir: string, port: number): Promise<LabApiServer> {
  return startApiServer({
    dataDir: join(dir, 'api'),
    listeners: [{ fd: listenTcpIn('here', '127.0.0.1', port) }, { host: '127.0.0.1', port: 0 }],
    sans: ['127.0.0.1', 'localhost'],
    serviceCidrs: ['10.96.0.0/16', 'fd00:96::/112'],
    podCidrs: ['10.10.0.0/16', 'fd00:10::/56'],
  });
}
