import type { Application } from 'express'
import express4 from 'express4'
import type Koa3 from 'koa'
import Koa2 from 'koa2'
import { describeBrokenOff, describeExpressConcurrency } from '../http/adapters/express-concurrency.js'
import { describeKoaConcurrency } from '../http/adapters/koa-concurrency.js'

describeExpressConcurrency('Express 4', express4 as unknown as () => Application)
describeBrokenOff('Express 4', express4 as unknown as () => Application)
describeKoaConcurrency('Koa 2', Koa2 as unknown as typeof Koa3)
