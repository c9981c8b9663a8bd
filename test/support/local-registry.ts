import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { createInterface } from 'node:readline';
import { builtProgram } from '../../build/go/programs.mjs';

/** A registry of images and other OCI artefacts that runs until it is closed. */
export interface LocalRegistry {
  /** Host and port, as names of images begin with. */
  readonly address: string;
  close(): Promise<void>;
}

interface RegistryOptions {
  /** IP address to listen on, `127.0.0.1` if absent. IPv6 without brackets. */
  readonly ip?: string;
  /** A free port if absent. */
  readonly port?: number;
  /** PEM files. Serves plain HTTP if absent. */
  readonly tls?: { readonly certificate: string; readonly key: string };
  /** Command and arguments in front of the program, such as `ip netns exec NAME`. */
  readonly before?: readonly string[];
}

/**
 * Starts the registry of the CNCF's Distribution project, built from its Go module.
 *
 * @param folder keeps what is pushed, and the configuration; the caller removes it
 * @throws Error with what the registry wrote, if it ends before it listens
 */
export async function startLocalRegistry(folder: string, options: RegistryOptions, signal: AbortSignal): Promise<LocalRegistry> {
  mkdirSync(folder, { recursive: true });
  const configuration = join(folder, 'registry.json');
  // JSON is YAML.
  writeFileSync(configuration, `${JSON.stringify(configurationOf(folder, options), null, 2)}\n`);
  const [command = '', ...args] = [...(options.before ?? []), await builtProgram('registry'), 'serve', configuration];
  const child = spawn(command, args, { stdio: ['ignore', 'pipe', 'pipe'], env: { ...process.env, OTEL_TRACES_EXPORTER: 'none' } });
  const ended = once(child, 'close');
  const close = async () => {
    child.kill('SIGKILL');
    await ended;
  };
  try {
    const address = await listenAddress(child.stderr, signal);
    // The pipes would fill up, and the registry wait.
    child.stderr.resume();
    child.stdout.resume();
    return { address, close };
  } catch (error) {
    await close();
    throw error;
  }
}

function configurationOf(folder: string, { ip = '127.0.0.1', port = 0, tls }: RegistryOptions): object {
  return {
    version: 0.1,
    log: { level: 'info', formatter: 'json', accesslog: { disabled: true } },
    storage: { filesystem: { rootdirectory: join(folder, 'storage') }, delete: { enabled: true } },
    http: {
      addr: ip.includes(':') ? `[${ip}]:${port}` : `${ip}:${port}`,
      ...(tls && { tls: { certificate: tls.certificate, key: tls.key } }),
    },
  };
}

/** Reads log lines until the one that names the address. */
async function listenAddress(log: NodeJS.ReadableStream, signal: AbortSignal): Promise<string> {
  const lines: string[] = [];
  for await (const line of createInterface({ input: log, signal })) {
    const [, address] = /listening on ([\d.]+:\d+|\[[\da-f:]+\]:\d+)/.exec(line) ?? [];
    if (address !== undefined) return address;
    lines.push(line);
  }
  throw new Error(`the registry ended before it listened: ${lines.join('\n')}`);
}
