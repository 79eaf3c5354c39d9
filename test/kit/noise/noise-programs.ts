import type { Program } from '../programs.ts'

const talk = `const piece = ('x'.repeat(999) + '\\n').repeat(64)
;(function talk() { process.stdout.write(piece, () => setImmediate(talk)) })()\n`

/** What a program does with each connection of its health gate. */
const answers = {
  /** Says nothing. */
  nothing: '',
  /** A byte of a header twice a second. */
  header: `socket.write('HTTP/1.1 200 OK\\r\\n')
  timer = setInterval(() => socket.write('a'), 500)`,
  /** Interim answers for ever. */
  interim: `timer = setInterval(() => socket.write('HTTP/1.1 103 Early Hints\\r\\nlink: </a>\\r\\n\\r\\n'), 100)`,
} as const

export const silences = Object.keys(answers) as (keyof typeof answers)[]

/** Accepts every connection and never ends its answer. Writes the file `asked` at the first request. */
export const silentProgram = (silence: keyof typeof answers, prints: boolean): Program => ({
  main: 'index.js',
  files: {
    'index.js': `require('node:net').createServer(socket => {
  let timer
  require('node:fs').writeFileSync('asked', 'x')
  ${answers[silence]}
  socket.on('error', () => {}).on('close', () => clearInterval(timer))
}).listen(process.env.PORT)
${prints ? talk : ''}`,
  },
})

/** Answers, prints as fast as its output is taken, and computes all the while. */
export const busyProgram: Program = {
  main: 'index.js',
  files: {
    'index.js': `require('node:http').createServer((_, answer) => answer.end('busy')).listen(process.env.PORT)
${talk}
new (require('node:worker_threads').Worker)('for (;;);', { eval: true })\n`,
  },
}

/** Its install step prints without end. */
export const endlessInstall: Program = {
  main: 'index.js',
  files: { 'index.js': '', 'package.json': JSON.stringify({ scripts: { preinstall: 'yes' } }) },
}
