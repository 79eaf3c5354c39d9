import { randomBytes } from 'node:crypto'

export interface Program {
  files: Record<string, string>
  main: string
}

/** Answers every request with a text. */
export const nodeProgram = (text: string): Program => ({
  main: 'index.js',
  files: {
    'index.js': `console.log('it starts'); require('node:http').createServer((_, answer) => answer.end(${JSON.stringify(text)})).listen(process.env.PORT)\n`,
  },
})

/** It answers so long after its start that its gate is a step of its own. */
export const lateProgram = (text: string): Program => {
  const { main, files } = nodeProgram(text)
  return { main, files: { [main]: `setTimeout(() => { ${files[main]!.trim()} }, 1500)\n` } }
}

export const typescriptProgram = (text: string): Program => ({
  main: 'index.ts',
  files: {
    'index.ts': `import { createServer } from 'node:http'\nenum Word { Greeting = ${JSON.stringify(text)} }\nconst port: number = Number(process.env.PORT)\ncreateServer((_, answer) => answer.end(Word.Greeting)).listen(port)\n`,
    'package.json': '{"type":"module"}',
  },
})

/** Uses a small package of the registry for WebSocket: what a client sends comes back. */
export const echoProgram = (text: string): Program => ({
  main: 'index.js',
  files: {
    'package.json': '{"dependencies":{"ws":"8.18.0"}}',
    'index.js': `const { WebSocketServer } = require('ws')
const server = require('node:http').createServer((_, answer) => answer.end(${JSON.stringify(text)})).listen(process.env.PORT)
new WebSocketServer({ server }).on('connection', socket => socket.on('message', (data, binary) => socket.send(data, { binary })))
`,
  },
})

/** Uses a small package of the registry. */
export const pythonProgram = (text: string): Program => ({
  main: 'main.py',
  files: {
    'requirements.txt': 'six==1.17.0\n',
    'main.py': `import os, six
from http.server import BaseHTTPRequestHandler, HTTPServer

class Handler(BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(six.ensure_binary(${JSON.stringify(text)}))

HTTPServer(('0.0.0.0', int(os.environ['PORT'])), Handler).serve_forever()
`,
  },
})

/** Its installation takes some seconds. */
export const slowProgram = (text: string, seconds: number): Program => {
  const program = nodeProgram(text)
  const manifest = JSON.stringify({ scripts: { preinstall: `sleep ${seconds}` } })
  return { ...program, files: { ...program.files, 'package.json': manifest } }
}

export const staticProgram = (text: string): Program => ({ main: 'index.html', files: { 'index.html': text } })

/** The configuration file for a program; a web application with a unique name unless the values say otherwise. */
export function configOf(program: Program, values: Record<string, string | null> = {}): Record<string, string> {
  const lines = {
    DISPLAY_NAME: 'test',
    MAIN: program.main,
    MEMORY: '512',
    VERSION: 'recommended',
    SUBDOMAIN: `t-${randomBytes(5).toString('hex')}`,
    ...values,
  }
  const known = Object.entries(lines).filter((line): line is [string, string] => line[1] !== null)
  return Object.fromEntries(known)
}
