import { readFileSync } from 'node:fs';
import type { OutgoingHttpHeaders } from 'node:http';
import type { RequestOptions } from 'node:https';
import { dirname, resolve } from 'node:path';
// Not the package's entry point: that one loads every API class, about 50 MB.
import { KubeConfig } from '@kubernetes/client-node/dist/config.js';
import { parse as parseYaml } from 'yaml';
import * as z from 'zod';
import { SeineError } from '../../base/errors/seine-error.ts';

/** Address of the API server, and credentials. */
export interface KubeAccess {
  /** URL without a trailing slash; may have a path. */
  readonly server: URL;
  /**
   * Returns the settings of the next request. Read them for each request: tokens and certificates are renewed while the agent runs.
   *
   * @throws SeineError `UNAVAILABLE` if a credential is not available now
   */
  credentials(): Promise<KubeCredentials>;
  /** Reports that the server refused the last credentials (401): everything is read again. */
  invalidate(): void;
}

export interface KubeCredentials {
  /** `Authorization`, impersonation. Secret: never log. */
  readonly headers: Readonly<Record<string, string>>;
  readonly tls: Readonly<Pick<RequestOptions, 'ca' | 'cert' | 'key' | 'rejectUnauthorized' | 'servername'>>;
}

/** Source of the configuration. `server` replaces the address of the source; certificates and credentials stay the source's. */
type KubeConfigSource = { readonly server?: string } & (
  | {
      readonly from: 'file';
      readonly path: string;
      /** Merged into the first, as kubectl does with the paths of `KUBECONFIG`. */
      readonly further?: readonly string[];
      /** The current one if omitted. */
      readonly context?: string;
    }
  /** Service account of the Pod; `KUBERNETES_SERVICE_HOST` and `_PORT` must be set. */
  | { readonly from: 'cluster' }
);

/** Time after which credentials are read again (ms). client-go reads token files at the same interval. */
const FRESH_MS = 60_000;

/**
 * Reads address and credentials from a kubeconfig or from inside a Pod. Exec plug-ins run when their credential expires; token and
 * certificate files are read again each minute.
 *
 * @throws SeineError `INVALID_INPUT` if there is no usable configuration
 */
export function loadKubeAccess(source: KubeConfigSource): KubeAccess {
  let config = readConfig(source);
  let cached: { readonly value: KubeCredentials; readonly readMs: number } | undefined;
  return {
    server: serverOf(config, source.server),
    credentials: async () => {
      const nowMs = performance.now();
      if (cached && nowMs - cached.readMs < FRESH_MS) return cached.value;
      try {
        if (source.from === 'file' && !hasExec(config)) config = readConfig(source);
        cached = { value: await credentialsOf(config, source), readMs: nowMs };
      } catch (cause) {
        throw new SeineError('UNAVAILABLE', 'credentials for the Kubernetes API', { context: { source: source.from }, cause });
      }
      return cached.value;
    },
    invalidate: () => {
      cached = undefined;
      // A new KubeConfig calls its exec plug-in again; the old one would answer from its cache until expiry.
      config = tryReadConfig(source) ?? config;
    },
  };
}

function readConfig(source: KubeConfigSource): KubeConfig {
  const config = new KubeConfig();
  try {
    if (source.from === 'file') readFiles(config, source);
    else config.loadFromCluster();
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', 'kubeconfig', { context: { ...source }, cause });
  }
  if (source.from === 'file' && source.context !== undefined && config.getContextObject(source.context) === null)
    throw new SeineError('INVALID_INPUT', `kubeconfig: there is no context ${source.context}; there are: ${contextsOf(config)}`);
  return config;
}

function readFiles(config: KubeConfig, { path, further = [], context }: KubeConfigSource & { readonly from: 'file' }): void {
  readFile(config, path);
  for (const each of further) {
    const next = new KubeConfig();
    readFile(next, each);
    config.mergeConfig(next, config.currentContext !== '');
  }
  if (context !== undefined) config.setCurrentContext(context);
}

/**
 * Reads a file. The library reads `token-file`, which some files use; kubectl's name is `tokenFile`, whose content takes precedence over
 * `token`.
 */
function readFile(config: KubeConfig, path: string): void {
  config.loadFromFile(path);
  const { users } = withTokenFiles.parse(parseYaml(readFileSync(path, 'utf8')));
  const files = new Map(
    users?.flatMap(({ name, user }) => (user?.tokenFile ? [[name, resolve(dirname(path), user.tokenFile)] as const] : [])),
  );
  config.users = config.users.map((user) => {
    const file = files.get(user.name);
    return file === undefined ? user : { ...user, token: readFileSync(file, 'utf8') };
  });
}

/** Fields of a kubeconfig (clientcmd/api/v1, `AuthInfo`) that the library ignores. */
const withTokenFiles = z.looseObject({
  users: z.array(z.looseObject({ name: z.string(), user: z.looseObject({ tokenFile: z.string().optional() }).nullish() })).nullish(),
});

function contextsOf(config: KubeConfig): string {
  return (
    config
      .getContexts()
      .map(({ name }) => name)
      .join(', ') || 'none'
  );
}

/** Reads the configuration; undefined on failure: a file that is being replaced must not lose the present configuration. */
function tryReadConfig(source: KubeConfigSource): KubeConfig | undefined {
  try {
    return readConfig(source);
  } catch {
    return undefined;
  }
}

function hasExec(config: KubeConfig): boolean {
  const user = config.getCurrentUser();
  return Boolean(user?.exec ?? user?.authProvider);
}

/** @throws SeineError `INVALID_INPUT`, also for features that the bundle leaves out (build/esbuild/stub-unused.mjs) */
function serverOf(config: KubeConfig, override?: string): URL {
  const server = override ?? config.getCurrentCluster()?.server ?? '';
  if (!URL.canParse(server))
    throw new SeineError('INVALID_INPUT', 'kubeconfig: clusters[].cluster.server of the current context is not a URL');
  const url = new URL(server);
  if (url.protocol !== 'https:' && url.protocol !== 'http:')
    throw new SeineError('INVALID_INPUT', `kubeconfig: cannot speak ${url.protocol} to the API server`);
  if (config.getCurrentUser()?.authProvider?.name === 'oidc')
    throw new SeineError(
      'INVALID_INPUT',
      'kubeconfig: users[].user.auth-provider "oidc" is not supported: use a token, a certificate or an exec plug-in',
    );
  if (config.getCurrentCluster()?.proxyUrl !== undefined)
    throw new SeineError(
      'INVALID_INPUT',
      'kubeconfig: clusters[].cluster.proxy-url is not supported: the API server must be reached directly',
    );
  return url;
}

async function credentialsOf(config: KubeConfig, source: KubeConfigSource): Promise<KubeCredentials> {
  const options: RequestOptions & { headers?: OutgoingHttpHeaders } = {};
  const plain = serverOf(config, source.server).protocol === 'http:';
  // KubeConfig creates no agent for plain http; such a server (kubectl proxy, tests) requires no credentials either.
  if (plain) return { headers: {}, tls: {} };
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, rejectUnauthorized, servername } = options;
  return { headers: headersOf(options), tls: definedOnly({ ca, cert, key, rejectUnauthorized, servername }) };
}

/** Returns headers. A token read from a file ends in a newline, which no header may contain. */
function headersOf(options: RequestOptions): Record<string, string> {
  const headers = Object.fromEntries(Object.entries(options.headers ?? {}).map(([name, value]) => [name, String(value).trim()]));
  if (typeof options.auth === 'string') headers['Authorization'] = `Basic ${Buffer.from(options.auth).toString('base64')}`;
  return headers;
}

/** Drops undefined members: explicit `undefined` would override defaults of `node:tls`. */
function definedOnly(tls: { [K in keyof KubeCredentials['tls']]: KubeCredentials['tls'][K] | undefined }): KubeCredentials['tls'] {
  return Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined));
}
