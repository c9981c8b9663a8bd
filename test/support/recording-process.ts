/**
 * Process that records history until it is killed: `node recording-process.ts FOLDER ROUNDS`. Each round is a second of an agent: events, inputs,
 * and what the next line of the segment refers to. Before, within and after each write of a file it writes a line to descriptor 3, and waits for a
 * byte on descriptor 4: its parent kills it at any of them. Numbers of written records follow as `events N` and `inputs N`.
 */
import { readSync, writeSync } from 'node:fs';
import { open } from 'node:fs/promises';
import { silentLog } from '../../src/base/log/log.ts';
import { History } from '../../src/operations/history/history.ts';

const [folder = '', rounds = '0'] = process.argv.slice(2);
/** Duration of a round (ms): a segment ends after ten minutes, so each third round begins another. */
const ROUND_MS = 200_000;
let round = 0;

/** Waits until the parent lets this process continue. */
function pass(text: string): void {
  writeSync(3, `${text}\n`);
  readSync(4, Buffer.alloc(1));
}

const history = new History({
  folder,
  ...{ bytesMax: 8 * 1024 * 1024, node: 'n1', version: '0.0.0', log: silentLog },
  now: () => round * ROUND_MS,
  wallMs: () => 1_700_000_000_000 + round * ROUND_MS,
  create: async (path) => {
    const file = await open(path, 'ax', 0o600);
    return {
      close: () => file.close(),
      appendFile: async (data) => {
        const bytes = data as Uint8Array;
        const half = bytes.length >> 1;
        pass('before');
        await file.appendFile(bytes.subarray(0, half));
        pass('within');
        await file.appendFile(bytes.subarray(half));
        pass('after');
      },
    };
  },
});

for (round = 1; round <= Number(rounds); round++) {
  history.note('agent.absent', ['node/n1'], { seconds: round });
  await history.flush();
  writeSync(3, `events ${round}\n`);
  if (await history.writeInputs([JSON.stringify({ n: round })], () => Promise.resolve())) writeSync(3, `inputs ${round}\n`);
}
await history.close();
