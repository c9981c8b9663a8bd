import { spawn } from 'node:child_process';
import { within } from '../../base/async/time-limit.ts';
import { SeineError } from '../../base/errors/seine-error.ts';

const OUTPUT_CHARACTERS_MAX = 64 * 1024;
/** Time limit of a plugin: VERSION is answered at once, STATUS by its deadline; a plugin that hangs is killed (ms). */
const PATIENCE_MS = 3_000;
/** The plugin's own key (s): a runtime's STATUS waits for an agent that is starting; an operator wants to know the reason early. */
export const STATUS_DEADLINE = 2;

export interface PluginAnswer {
  readonly code: number;
  readonly stdout: string;
}

/**
 * Executes a CNI plugin like a runtime, with nothing of our environment but `PATH`.
 *
 * @throws SeineError `UNAVAILABLE` if it cannot be started, or does not end in time
 */
export function runPlugin(
  path: string,
  { command, binDir, stdin }: { readonly command: 'VERSION' | 'STATUS' | '--version'; readonly binDir: string; readonly stdin: string },
  signal: AbortSignal,
): Promise<PluginAnswer> {
  const env = { PATH: process.env['PATH'] ?? '', ...(command === '--version' ? {} : { CNI_COMMAND: command, CNI_PATH: binDir }) };
  return new Promise((resolve, reject) => {
    const limit = within(signal, PATIENCE_MS);
    const args = command === '--version' ? ['--version'] : [];
    const child = spawn(path, args, { env, stdio: ['pipe', 'pipe', 'ignore'], signal: limit, killSignal: 'SIGKILL' });
    let stdout = '';
    child.stdout.setEncoding('utf8').on('data', (text: string) => {
      if (stdout.length < OUTPUT_CHARACTERS_MAX) stdout += text;
    });
    child.stdin.on('error', () => undefined); // it did not read all of it
    child.once('error', (cause) => {
      child.stdout.destroy(); // a child process of the plugin may hold the other end, and this process would not end before it
      const why = limit.aborted ? `did not end within ${PATIENCE_MS / 1_000} s` : cause.message;
      reject(new SeineError('UNAVAILABLE', `${path}: ${why}`, { cause }));
    });
    child.once('close', (code) => resolve({ code: code ?? -1, stdout }));
    child.stdin.end(stdin);
  });
}

/** Reads the `supportedVersions` of an answer to VERSION (CNI specification, section 3); empty if invalid. */
export function supportedVersions(answer: PluginAnswer): readonly string[] {
  const value = parsed(answer.stdout);
  const versions = value['supportedVersions'];
  return Array.isArray(versions) ? versions.filter((each): each is string => typeof each === 'string') : [];
}

/** Reads the version in `seine 1.2.3`; a plugin without this argument answers otherwise. */
export function buildVersion({ code, stdout }: PluginAnswer): string | undefined {
  return code === 0 ? /^seine (\d+\.\d+\.\d+\S*)\n$/.exec(stdout)?.[1] : undefined;
}

/** Reads code and message of an error (CNI specification, section 5). */
export function pluginError({ code, stdout }: PluginAnswer): { readonly code: number; readonly message: string } | undefined {
  if (code === 0) return undefined;
  const value = parsed(stdout);
  const [number, message, details] = [value['code'], value['msg'], value['details']];
  const words = [message, details].filter((each) => typeof each === 'string' && each !== '').join('; ');
  return { code: typeof number === 'number' ? number : code, message: words === '' ? `exit code ${code}` : words };
}

function parsed(text: string): Readonly<Record<string, unknown>> {
  try {
    const value: unknown = JSON.parse(text);
    return typeof value === 'object' && value !== null ? { ...value } : {};
  } catch {
    return {};
  }
}
