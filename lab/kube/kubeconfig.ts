import { readFileSync } from 'node:fs';
import { dirname, resolve } from 'node:path';
import { stringify } from 'yaml';
import { SeineError } from '../../src/base/errors/seine-error.ts';

/** Address of an API server, and the client's credentials. */
export interface ApiCredentials {
  /** `https://host:port`, without a path. */
  readonly server: string;
  readonly caPem?: string | undefined;
  readonly token?: string | undefined;
  readonly certificatePem?: string | undefined;
  readonly keyPem?: string | undefined;
  /** The name its certificate is checked against, if it is not the host of `server`. */
  readonly serverName?: string | undefined;
  readonly insecure?: boolean | undefined;
}

/**
 * Reads the current context of a kubeconfig. Credentials that require a program are rejected: the lab copies them to every node as a file.
 *
 * @throws SeineError `INVALID_INPUT` naming the unsupported field
 */
export async function readKubeconfig(path: string): Promise<ApiCredentials> {
  const { KubeConfig } = await import('@kubernetes/client-node/dist/config.js');
  const config = new KubeConfig();
  try {
    config.loadFromFile(path);
  } catch (cause) {
    throw new SeineError('INVALID_INPUT', `${path}: not a kubeconfig`, { cause });
  }
  const cluster = config.getCurrentCluster();
  const user = config.getCurrentUser();
  if (!cluster || !user) throw new SeineError('INVALID_INPUT', `${path}: its current context names no cluster or no user`);
  if (user.exec || user.authProvider) throw new SeineError('INVALID_INPUT', `${path}: a lab needs a token or a certificate`);
  const pem = (data: string | undefined, file: string | undefined) =>
    data ? Buffer.from(data, 'base64').toString('utf8') : file ? readFileSync(resolve(dirname(path), file), 'utf8') : undefined;
  return {
    server: cluster.server.replace(/\/+$/, ''),
    caPem: pem(cluster.caData, cluster.caFile),
    token: user.token,
    certificatePem: pem(user.certData, user.certFile),
    keyPem: pem(user.keyData, user.keyFile),
    serverName: cluster.tlsServerName,
    insecure: cluster.skipTLSVerify,
  };
}

/** The text of a kubeconfig with these credentials, for kubectl and agents. */
export function kubeconfigText(access: ApiCredentials, name: string): string {
  const base64 = (pem: string | undefined) => pem && Buffer.from(pem).toString('base64');
  const present = (fields: Record<string, unknown>) =>
    Object.fromEntries(Object.entries(fields).filter(([, value]) => value !== undefined));
  return stringify({
    apiVersion: 'v1',
    kind: 'Config',
    clusters: [
      {
        name,
        cluster: present({
          server: access.server,
          'certificate-authority-data': base64(access.caPem),
          'tls-server-name': access.serverName,
          'insecure-skip-tls-verify': access.insecure || undefined,
        }),
      },
    ],
    users: [
      {
        name,
        user: present({
          token: access.token,
          'client-certificate-data': base64(access.certificatePem),
          'client-key-data': base64(access.keyPem),
        }),
      },
    ],
    contexts: [{ name, context: { cluster: name, user: name } }],
    'current-context': name,
  });
}
