import test from 'ava'
import { gitCli } from '../../../activities/git/cli.ts'
import { gitContract } from '../../contracts/git.ts'
import { gitBench } from '../../kit/git/git-bench.ts'
import { startGitServer } from '../../kit/git/git-server.ts'

const bench = await gitBench()
const server = await startGitServer()
const git = gitCli({ scratch: bench.scratch })

test.after.always(async () => {
  await server.stop()
  await bench.close()
})

gitContract(test, () => ({ git, bench, server }))
