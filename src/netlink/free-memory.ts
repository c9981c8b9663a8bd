import type { KoffiFunc } from 'koffi';
import { loadLibrary } from './sys.ts';

/**
 * Returns memory that the C library holds free to the kernel, which takes milliseconds: that of freed buffers lies between
 * others that stay. Source: malloc_trim(3), an extension of the GNU C library; nothing happens with another one.
 */
export function returnFreeMemory(): void {
  let trim: KoffiFunc<(keep: number) => number>;
  try {
    trim = loadLibrary(['libc.so.6'], 'libc6').func('int malloc_trim(size_t)');
  } catch {
    return; // another C library
  }
  trim(0);
}
