import { createServer } from 'node:net'
import type { Db } from '../../../../db/database.ts'
import type { Rental } from './rental.ts'

/**
 * What makes an operation fail once it has begun, so that it is undone: it is cancelled when it is claimed, its caller is answered when it
 * has begun to change something, or the port that it starts on is taken.
 */
export type Failure = 'cancelled' | 'late' | 'port taken'

const onOperations = (change: string) => `
  create function forced_failure() returns trigger language plpgsql as $$ begin
    if new.target_type = 'database' then ${change} end if;
    return new;
  end $$;
  create trigger forced_failure before update on operations for each row execute function forced_failure()`

/** Makes the next operation of this database fail, by changes of its rows as another process makes them. Resolves to what ends that. */
export async function forceFailure(db: Db, rental: Rental, failure: Failure): Promise<() => Promise<void>> {
  const taken = createServer()
  await new Promise<void>(done => taken.listen(0, () => done()))
  const { port } = taken.address() as { port: number }
  const own = (await rental.row())?.port ?? port
  const statements: Record<Failure, string> = {
    cancelled: onOperations(`
      if old.state <> 'running' and new.state = 'running' then new.cancel_requested_at := clock_timestamp(); end if;`),
    late: onOperations(`
      if new.input ? 'rotation' or new.step = 'stopping the engine' then
        new.end_before := least(new.end_before, clock_timestamp() - interval '1 second');
      end if;`),
    'port taken': `
      create function forced_failure() returns trigger language plpgsql as $$ begin
        if tg_op = 'INSERT' or new.generation > old.generation then new.port := ${port};
        elsif new.generation < old.generation then new.port := ${own};
        end if;
        return new;
      end $$;
      create trigger forced_failure before insert or update on databases for each row execute function forced_failure()`,
  }
  await db.raw(statements[failure].replaceAll('?', '\\?'))
  return async () => {
    taken.close()
    await db.raw('drop function forced_failure() cascade')
  }
}
