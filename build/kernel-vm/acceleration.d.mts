interface EmulatedGuest {
  readonly kernelFolder: string;
  readonly emulator: readonly string[];
  readonly emulatorWithKvm?: readonly string[];
  readonly console: string;
}

export function acceleratedEmulator(
  guest: EmulatedGuest,
  options?: { readonly device?: string; readonly limitMs?: number },
): Promise<readonly string[]>;
