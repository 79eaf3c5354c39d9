import type Docker from 'dockerode'
import { routes } from '../bridge-subnets.ts'
import { bridgeName } from '../network-names.ts'
import type { NetworkSpec, PresentNetwork } from '../port.ts'
import { call, status, unless } from './calls.ts'
import { freeSubnets, overlaps, parseSubnet, type Subnet } from './subnets.ts'

/** Room for 253 containers of one owner on one host, and for 8192 owners in the default range. */
const subnetPrefix = 24

/** The engine's default ranges suffice for about 30 networks, so each of our networks gets its subnet from `range`. */
export function containerNetworks(docker: Docker, range: string) {
  const pool = rangeOf(range)

  async function takenSubnets(): Promise<Subnet[]> {
    const networks = await call(abortSignal => docker.listNetworks({ abortSignal }))
    const subnetTexts = networks.flatMap(network => network.IPAM?.Config?.map(config => config.Subnet ?? '') ?? [])
    const subnets = [...subnetTexts.map(parseSubnet), ...(await routes()).map(({ subnet }) => parseSubnet(subnet))]
    return subnets.filter(subnet => subnet !== null).filter(subnet => overlaps(subnet, pool))
  }

  async function create(spec: NetworkSpec, Subnet: string): Promise<void> {
    await call(abortSignal =>
      docker.createNetwork({
        Name: spec.name,
        CheckDuplicate: true,
        Driver: 'bridge',
        // An operator's default for new networks would give containers IPv6, which no rule sees.
        EnableIPv6: false,
        IPAM: { Driver: 'default', Config: [{ Subnet }] },
        Options: {
          'com.docker.network.bridge.name': bridgeName(spec),
          'com.docker.network.bridge.enable_icc': 'false',
        },
        Labels: spec.labels,
        abortSignal,
      }),
    )
  }

  const present = (name: string): Promise<boolean> =>
    call(() => docker.getNetwork(name).inspect())
      .catch(unless(404))
      .then(Boolean)

  return {
    /** Present already is success; of two concurrent calls one creates it and both succeed. */
    async ensure(spec: NetworkSpec): Promise<void> {
      if (await present(spec.name)) return
      let lastError: unknown = new Error(`Every network range of ${range} is taken.`)
      for (const subnet of freeSubnets(pool, subnetPrefix, spec.name, await takenSubnets())) {
        try {
          return await create(spec, subnet)
        } catch (error) {
          if (await present(spec.name)) return
          // Another process took this range, or the bridge of a network that is being removed still exists.
          if (![400, 403, 409, 500].includes(status(error) ?? 0) || !/overlap|conflict/i.test(String(error)))
            throw error
          lastError = error
        }
      }
      throw lastError
    },

    async list(filter: Record<string, string>): Promise<PresentNetwork[]> {
      const label = Object.entries(filter).map(([name, value]) => `${name}=${value}`)
      const networks = await call(abortSignal => docker.listNetworks({ filters: { label }, abortSignal }))
      return networks.map(({ Name, Options, IPAM }) => ({
        name: Name,
        bridge: Options?.['com.docker.network.bridge.name'] ?? null,
        subnet: IPAM?.Config?.[0]?.Subnet ?? null,
      }))
    },

    /** Missing is success; a network with containers in it stays, and the engine's refusal is rethrown. */
    async remove(name: string): Promise<void> {
      await call(abortSignal => docker.getNetwork(name).remove({ abortSignal })).catch(unless(404))
    },
  }
}

function rangeOf(text: string): Subnet {
  const range = parseSubnet(text)
  if (!range) throw new Error(`${text} is not a range of IPv4 addresses for networks.`)
  return range
}
