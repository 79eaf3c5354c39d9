import { networkVariables, ownVariables, startProcess, systemEnvironment } from '../../lib/child-process.ts'
import { findProgram, MissingPart } from './system-packages.ts'

/** The variables in `go help environment` that say where Go stores and finds files, and how it reaches modules. */
const goVariables = [
  ...['PATH', 'HOME', 'TMPDIR', 'XDG_CACHE_HOME', 'XDG_CONFIG_HOME', 'NETRC', 'GIT_SSL_CAINFO'],
  ...['GOPATH', 'GOROOT', 'GOENV', 'GOFLAGS', 'GOTOOLCHAIN', 'GOCACHE', 'GOMODCACHE', 'GOTMPDIR'],
  ...['GOPROXY', 'GONOPROXY', 'GOPRIVATE', 'GOINSECURE', 'GOAUTH', 'GOSUMDB', 'GONOSUMDB'],
]

/** The path of Go. Throws `MissingPart` with this message when there is none. */
export function findGo(missing: string): string {
  const go = findProgram('go', `${process.env.PATH}:/usr/local/go/bin`)
  if (!go) throw new MissingPart(missing)
  return go
}

/** Builds a program, `module/path@version`, into a folder. Go verifies its source against the public checksum database. */
export function goInstall(go: string, source: string, folder: string): Promise<void> {
  return new Promise((resolve, reject) => {
    const child = startProcess(go, ['install', source], {
      env: { ...systemEnvironment, ...ownVariables([...networkVariables, ...goVariables]), GOBIN: folder },
      stdio: ['ignore', 2, 2],
    })
    // Otherwise it would keep running for minutes alongside the build of the next start.
    const end = () => void child.kill('SIGINT')
    process.once('exit', end)
    child.once('error', reject)
    child.once('exit', code => {
      process.off('exit', end)
      if (code === 0) resolve()
      else reject(new MissingPart(`go install ${source} exited with ${code}; see its messages above.`))
    })
  })
}
