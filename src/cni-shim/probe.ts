import { request } from 'node:http';

/** Same as in probe.c. */
const usualSeconds = 4;
const secondsMax = 3_600;
const answerBytesMax = 4_096;

/** `probe.c` for Node: `livez|readyz|readyz/rollout SOCKET [SECONDS]`. Never rejects. @returns the exit code, and the text for stderr */
export async function probeAgent(words: readonly string[]): Promise<{ readonly exit: number; readonly stderr: string }> {
  const [what = '', path, seconds = String(usualSeconds), ...more] = words;
  const limit = Number(seconds);
  const makesSense = ['livez', 'readyz', 'readyz/rollout'].includes(what) && path !== undefined && more.length === 0;
  if (!makesSense || !Number.isInteger(limit) || limit < 1 || limit > secondsMax)
    return { exit: 2, stderr: 'seine: --probe livez|readyz|readyz/rollout SOCKET [SECONDS]\n' };
  const failure = await ask(path, what, AbortSignal.timeout(limit * 1_000));
  return failure === undefined ? { exit: 0, stderr: '' } : { exit: 1, stderr: `seine: the agent at ${path}: ${failure}\n` };
}

/** @returns why the answer is not good */
function ask(socketPath: string, what: string, signal: AbortSignal): Promise<string | undefined> {
  return new Promise((resolve) => {
    const failed = (error: Error): void => resolve(signal.aborted ? 'Connection timed out' : error.message);
    const asking = request({ socketPath, path: `/${what}`, agent: false, signal }, (answer) => {
      let body = '';
      answer.setEncoding('utf8').on('data', (text: string) => {
        body = (body + text).slice(0, answerBytesMax);
      });
      answer.on('error', failed);
      answer.on('end', () => {
        const isGood = answer.statusCode === 200 || (answer.statusCode === 503 && what === 'livez');
        resolve(isGood ? undefined : body || 'it refuses without a reason');
      });
    });
    asking.on('error', failed);
    asking.end();
  });
}
