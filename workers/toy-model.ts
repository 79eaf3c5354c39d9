import { availableParallelism } from 'node:os'
import { openLog, runUntilSignal } from './connect.ts'
import { openLlama } from './toy-model/llama.ts'
import { serveToyModel } from './toy-model/toy-server.ts'

/**
 * The process `toy-model`: serves a very small language model on loopback, for trying out the AI gateway only. Its arguments are the
 * folder of the library, the file of the model and the port; it knows no setting and no secret of the installation.
 */
const [libraryFolder, modelPath, port] = process.argv.slice(2)
if (!libraryFolder || !modelPath || !port) throw new Error('Arguments: <library folder> <model file> <port>')
const log = openLog({ logLevel: 'info' }, 'toy-model')
const life = runUntilSignal(log, 5)
/** One is left for everything else. */
const threads = availableParallelism() > 2 ? 2 : 1
const generator = await openLlama({ libraryFolder, modelPath, threads })
life.onEnd(() => generator.close())
const { server } = await serveToyModel({ generator, port: Number(port), log })
life.onEnd(
  () =>
    new Promise(resolve => {
      server.close(resolve)
      server.closeAllConnections()
    }),
)
life.ready()
log.info({ threads }, 'the toy model is ready: it is for trying things out only')
