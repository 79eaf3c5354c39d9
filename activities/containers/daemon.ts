/** Settings of an engine that Berth starts itself; an engine that was already there is never reconfigured. */
export interface DaemonOptions {
  /** Path of the socket the engine listens on, with or without `unix://`. Never a TCP address. */
  socket: string
  /** Folders and file of the engine; its defaults when omitted. A second engine on a machine needs all three. */
  dataRoot?: string
  execRoot?: string
  pidFile?: string
  /** Whether root inside a container is a user without rights outside. Images are then stored separately (docs/decisions). */
  userNamespaces?: boolean
}

/** Arguments of `dockerd`, following CIS 2.2 to 2.16. Containers keep running when the engine ends. */
export function daemonArguments(options: DaemonOptions): string[] {
  return [
    `--host=unix://${options.socket.replace(/^unix:\/\//, '')}`,
    ...(options.dataRoot ? [`--data-root=${options.dataRoot}`] : []),
    ...(options.execRoot ? [`--exec-root=${options.execRoot}`] : []),
    ...(options.pidFile ? [`--pidfile=${options.pidFile}`] : []),
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
    ...(options.userNamespaces ? ['--userns-remap=default'] : []),
  ]
}
