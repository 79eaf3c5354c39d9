import { prepareEdge } from '../edge/prepare.ts'
import { startProcess, systemEnvironment } from '../lib/child-process.ts'
import { processConfig } from './process-config.ts'

/** The process `proxy` of an installation in containers: writes nginx's files, runs it, and ends when it ends. */
const config = processConfig(process.env)
const { command, args } = await prepareEdge(config)
const nginx = startProcess(command, args, { env: systemEnvironment, stdio: 'inherit' })

nginx.on('error', error => {
  console.error(`The proxy did not start: ${error.message}`)
  process.exit(1)
})
nginx.on('exit', (code, signal) => process.exit(code ?? (signal ? 1 : 0)))
// The first signal lets requests in progress finish; the second does not.
for (const name of ['SIGTERM', 'SIGINT', 'SIGQUIT'] as const) {
  process.once(name, () => {
    nginx.kill('SIGQUIT')
    process.once(name, () => nginx.kill('SIGTERM'))
  })
}
process.on('SIGHUP', () => nginx.kill('SIGHUP'))
