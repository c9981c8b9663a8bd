import { readFileSync } from 'node:fs';
import { Agent, type RequestOptions, request } from 'node:https';
import { text } from 'node:stream/consumers';
import { parse } from 'yaml';

/** An object of the API, with the fields that the driver reads. */
export interface ApiObject {
  readonly apiVersion?: string;
  readonly kind?: string;
  readonly metadata: {
    readonly name: string;
    readonly namespace?: string;
    readonly labels?: Readonly<Record<string, string>>;
    readonly annotations?: Readonly<Record<string, string>>;
    readonly uid?: string;
    readonly resourceVersion?: string;
  };
  readonly spec?: Readonly<Record<string, unknown>>;
  readonly status?: Readonly<Record<string, unknown>>;
  readonly [field: string]: unknown;
}

/** Kubeconfig of an administrator with a token or a certificate. */
interface Kubeconfig {
  readonly clusters: readonly {
    readonly cluster: { readonly server: string; readonly 'certificate-authority-data': string; readonly 'tls-server-name'?: string };
  }[];
  readonly users: readonly {
    readonly user: { readonly token?: string; readonly 'client-certificate-data'?: string; readonly 'client-key-data'?: string };
  }[];
}

/** A client of the API server, and the options of its requests, for forwarding. */
export class Api {
  readonly #options: RequestOptions;
  readonly #kubeconfig: string;

  /** @param bearer token of another user than that of the file */
  constructor(kubeconfig: string, bearer?: string) {
    this.#kubeconfig = kubeconfig;
    const { clusters, users } = parse(readFileSync(kubeconfig, 'utf8')) as Kubeconfig;
    const cluster = clusters[0]?.cluster;
    const user = users[0]?.user;
    if (cluster === undefined || user === undefined) throw new Error(`${kubeconfig} names no cluster, or no user`);
    const { hostname, port } = new URL(cluster.server);
    const pem = (data: string | undefined) => data && Buffer.from(data, 'base64');
    const own = bearer === undefined ? [user['client-certificate-data'], user['client-key-data']] : [];
    const [ca, cert, key] = [cluster['certificate-authority-data'], ...own].map(pem);
    const servername = cluster['tls-server-name'];
    const agent = new Agent({ keepAlive: true, ca, cert, key, ...(servername !== undefined && { servername }) });
    const token = bearer ?? user.token;
    this.#options = { hostname, port, agent, headers: token === undefined ? {} : { Authorization: `Bearer ${token}` } };
  }

  /** A client of the same server, as another user. */
  as(bearer: string): Api {
    return new Api(this.#kubeconfig, bearer);
  }

  /** Host of the server. */
  get host(): string {
    return String(this.#options.hostname);
  }

  /** Options of a request with these headers. */
  options(method: string, path: string, headers: Readonly<Record<string, string>> = {}): RequestOptions {
    return { ...this.#options, method, path, headers: { ...this.#options.headers, ...headers } };
  }

  async list(path: string): Promise<readonly ApiObject[]> {
    const { items } = await this.#ask<{ items: ApiObject[] }>('GET', path);
    return items;
  }

  get(path: string): Promise<ApiObject> {
    return this.#ask('GET', path);
  }

  create(collection: string, object: ApiObject): Promise<ApiObject> {
    return this.#ask('POST', collection, object);
  }

  replace(path: string, object: ApiObject): Promise<ApiObject> {
    return this.#ask('PUT', path, object);
  }

  /** A merge patch (RFC 7396). */
  patch(path: string, change: object): Promise<ApiObject> {
    return this.#ask('PATCH', path, change, 'application/merge-patch+json');
  }

  async delete(path: string): Promise<void> {
    await this.#ask('DELETE', path);
  }

  close(): void {
    const { agent } = this.#options;
    if (agent instanceof Agent) agent.destroy();
  }

  #ask<T>(method: string, path: string, body?: object, type = 'application/json'): Promise<T> {
    return new Promise((resolve, reject) => {
      const options = this.options(method, path, { 'Content-Type': type, Accept: 'application/json' });
      const sent = request({ ...options, timeout: 30_000 }, (answer) => {
        text(answer).then((said) => {
          const status = answer.statusCode ?? 0;
          if (status >= 200 && status < 300) resolve(JSON.parse(said) as T);
          else reject(new Error(`${method} ${path}: ${status} ${said.slice(0, 500)}`));
        }, reject);
      });
      sent.once('timeout', () => sent.destroy(new Error(`${method} ${path}: no answer`)));
      sent.once('error', reject);
      sent.end(body === undefined ? undefined : JSON.stringify(body));
    });
  }
}
