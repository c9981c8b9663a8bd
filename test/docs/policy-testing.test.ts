import { testExamples } from './page-examples.ts';

testExamples(['policy-testing', 'cluster-network-policy'], { files: 10, commands: 7 });
