import { expect, it } from 'vitest';
import { droppedBy } from './starvation.ts';

it("reads dropped packets of a switch's sockets", () => {
  const printed = `p_raw 0      0        *:eth0           * ino:190028480 sk:e96
\tver:0 cpy_thresh:0 flags( running auxdata ) skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d0)
p_raw 0      0        *:web0-b106f5c   * ino:190028500 sk:ea1
\tver:0 cpy_thresh:0 flags( running auxdata ) skmem:(r0,rb212992,t0,tb212992,f0,w0,o176,bl0,d1844)
`;
  expect([...droppedBy(printed)]).toEqual([
    ['190028480', 0],
    ['190028500', 1844],
  ]);
  expect(droppedBy('').size).toBe(0);
});
