export declare function say(line: string): void;
export declare class SetupError extends Error {
  constructor(message: string, remedy: string);
  readonly remedy: string;
}
