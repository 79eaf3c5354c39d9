// Soak and chaos runs: `./berth test --long`, outside CI.
import config from './ava.config.js'

export default { ...config, files: ['test/long/**/*.test.ts'], timeout: '60m', concurrency: 1 }
