/** Settings of an engine that Berth starts itself; a person's own engine is never reconfigured. */
export interface DaemonOptions {
  /** Socket the engine listens on. */
  socket: string
  dataRoot: string
  execRoot: string
  pidFile: string
  /** Whether root inside a container is a user without rights outside; images are then kept apart. */
  userNamespaces?: boolean
}

/** Arguments of `dockerd` (security baseline, CIS 2.2 to 2.16): never a TCP socket, containers live on without the daemon. */
export function daemonArguments({
  socket,
  dataRoot,
  execRoot,
  pidFile,
  userNamespaces = false,
}: DaemonOptions): string[] {
  return [
    `--host=unix://${socket}`,
    `--data-root=${dataRoot}`,
    `--exec-root=${execRoot}`,
    `--pidfile=${pidFile}`,
    '--live-restore',
    '--no-new-privileges',
    '--userland-proxy=false',
    '--icc=false',
    '--default-ulimit=nofile=1024:4096',
    '--default-ulimit=core=0:0',
    '--log-driver=json-file',
    '--log-opt=max-size=5m',
    '--log-opt=max-file=2',
    '--log-level=warn',
    ...(userNamespaces ? ['--userns-remap=default'] : []),
  ]
}
