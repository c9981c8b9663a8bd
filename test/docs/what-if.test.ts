import { testExamples } from './page-examples.ts';

testExamples(['what-if', 'simulation'], { files: 4, commands: 3 });
