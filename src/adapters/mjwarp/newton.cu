// Newton's method for the constraint forces of one world, by one thread block: the body of a Warp function.
//
// Minimises over the acceleration a (MuJoCo's documentation, "Computation", primal problem)
//
//     1/2 (a - a_smooth)' M (a - a_smooth) + sum over rows r of s_r((J a - aref)_r)
//
// where s_r is half a parabola of curvature D for a contact or a limit, a whole one for an equality, and for dry
// friction a parabola that goes on as lines of slope +-frictionloss. Every sum has one order, so equal rows in equal
// order give equal bits.
//
// Before this text come thread_block.cu and the sizes: NV degrees of freedom, ROWS constraint rows at most, ITERATIONS,
// LINE_ITERATIONS, STAGED blocks in shared memory. Arguments: `engine`, the engine's arrays by their names there;
// `world`; `tid` of T threads.

constexpr int LANES = T < 16 ? T : 16;     // of a team, which gathers one block's forces
constexpr int TEAMS = T / LANES;
constexpr int EVEN = NV + NV % 2;
constexpr int OWN = (EVEN + T - 1) / T;    // degrees of freedom of a thread: tid, tid + T, ...
constexpr int PITCH = NV | 1;              // odd: entries of a column lie in unlike banks
constexpr int TRIANGLE = NV * (NV + 1) / 2;
constexpr float SMALL = 1e-15f, LINE_TOL = 1e-4f;
enum { SATISFIED = 0, QUADRATIC = 1, LINEARNEG = 2, LINEARPOS = 3, UNKNOWN = 4 };

// Rows that come together and reach the same degrees of freedom: a contact, a limit, an equality.
struct Block {
    int head, end, nnz, adr;
};
struct alignas(16) Four {
    float row[4];
};
constexpr int SUPPORT = 16;  // degrees of freedom of a block that is copied to shared memory

BLOCK_SHARED float inertia[NV * PITCH], hessian[NV * PITCH];
BLOCK_SHARED unsigned char row_of[TRIANGLE];  // where entries of a lower triangle, one row after the other, belong
BLOCK_SHARED alignas(16) float pivot[2][2][EVEN + 4];
BLOCK_SHARED alignas(16) float search[NV];
BLOCK_SHARED float gradient[NV], gathered[TEAMS][NV];
BLOCK_SHARED float residual[ROWS], curvature[ROWS];  // J a - aref; D
BLOCK_SHARED float along[ROWS];    // J search
BLOCK_SHARED float change[ROWS];  // of a row's curvature since the Hessian was brought up to date
BLOCK_SHARED unsigned char kind[ROWS];  // the piece of its cost that a row is on
BLOCK_SHARED alignas(16) Block held[STAGED];
BLOCK_SHARED Four held_J[STAGED * SUPPORT];
BLOCK_SHARED unsigned char held_dof[STAGED * SUPPORT];
BLOCK_SHARED unsigned votes[WARPS];

auto of_world = [&](auto& array) { return (decltype(array.data))((char*)array.data + (size_t)world * array.strides[0]); };
auto setting = [&](auto& array) { return array.data[world % array.shape[0]]; };
// body(own, i) for each degree of freedom i of this thread
auto each_dof = [&](auto body) {
    BLOCK_UNROLL
    for (int own = 0; own < OWN; ++own)
        if (tid + own * T < NV) body(own, tid + own * T);
};

const int rows = min(engine.nefc.data[world], ROWS), blocks = min(engine.jtdaj_nblock.data[world], ROWS);
const int equalities = engine.ne.data[world], linear = equalities + engine.nf.data[world];
const int *J_dof = of_world(engine.J_colind), *dry = of_world(engine.dof_frictionadr);
const float *J = of_world(engine.J), *smooth = of_world(engine.qfrc_smooth), *loss = of_world(engine.frictionloss);
float* const forces = along;  // of rows: they take the place of J search, which is done with by then
const float tol = setting(engine.tolerance);

// The row of a degree of freedom's own dry friction, which is in no block; -1 for none.
auto dry_row = [&](int i) { return linear > equalities && dry[i] < rows ? dry[i] : -1; };

auto read_block = [&](int b) {
    const int head = of_world(engine.jtdaj_adr)[b], end = min(head + of_world(engine.jtdaj_nrow)[b], rows);
    if (head >= end) return Block{0, 0, 0, 0};
    return Block{head, end, of_world(engine.J_rownnz)[head], of_world(engine.J_rowadr)[head]};
};
auto is_held = [](int b, const Block& block) {
    return b < STAGED && block.nnz <= SUPPORT && block.end - block.head <= 4;
};
auto block_at = [&](int b) { return b < STAGED ? held[b] : read_block(b); };
auto dof_of = [&](int b, const Block& block, int p) {
    return is_held(b, block) ? held_dof[b * SUPPORT + p] : J_dof[block.adr + p];
};

// along = J search; needs a barrier after it.
auto multiply_rows = [&]() {
    each_dof([&](int own, int i) {
        if (dry_row(i) >= 0) along[dry_row(i)] = search[i];
    });
    for (int b = tid; b < blocks; b += T) {
        const Block block = block_at(b);
        if (is_held(b, block)) {
            Four value = {};
            for (int p = 0; p < block.nnz; ++p) {
                const Four entry = held_J[b * SUPPORT + p];
                const float v = search[held_dof[b * SUPPORT + p]];
                BLOCK_UNROLL
                for (int m = 0; m < 4; ++m) value.row[m] += entry.row[m] * v;
            }
            BLOCK_UNROLL
            for (int m = 0; m < 4; ++m)
                if (block.head + m < block.end) along[block.head + m] = value.row[m];
        } else {
            BLOCK_ROLLED
            for (int row = block.head, from = block.adr; row < block.end; ++row, from += block.nnz) {
                float value = 0.0f;
                BLOCK_ROLLED
                for (int p = 0; p < block.nnz; ++p) value += J[from + p] * search[J_dof[block.adr + p]];
                along[row] = value;
            }
        }
    }
};

// sum over the rows of a block of weight[row] J[row][p] J[row][q]; without the last factor for q < 0
auto weigh = [&](int b, const Block& block, const float* weight, int p, int q) {
    float value = 0.0f;
    if (is_held(b, block)) {
        const Four left = held_J[b * SUPPORT + p], right = held_J[b * SUPPORT + max(q, 0)];
        BLOCK_UNROLL
        for (int m = 0; m < 4; ++m)
            if (block.head + m < block.end)
                value += weight[block.head + m] * left.row[m] * (q < 0 ? 1.0f : right.row[m]);
    } else {
        BLOCK_ROLLED
        for (int row = block.head, from = block.adr; row < block.end; ++row, from += block.nnz)
            value += weight[row] * J[from + p] * (q < 0 ? 1.0f : J[from + q]);
    }
    return value;
};

// hessian += J' diag(change) J; barriers in it and after it.
auto update_hessian = [&]() {
    each_dof([&](int own, int i) {
        if (dry_row(i) >= 0) hessian[i * PITCH + i] += change[dry_row(i)];
    });
    for (int first = 0; first < blocks; first += T) {
        bool changed = false;
        if (first + tid < blocks) {
            const Block block = block_at(first + tid);
            for (int row = block.head; row < block.end; ++row) changed |= change[row] != 0.0f;
        }
        const unsigned vote = BLOCK_VOTE(changed);
        if (tid % 32 == 0) votes[tid / 32] = vote;
        BLOCK_SYNC();
        for (int warp = 0; warp < WARPS; ++warp) {
            for (unsigned left = votes[warp]; left; left &= left - 1) {
                const int b = first + warp * 32 + BLOCK_FIRST(left);
                const Block block = block_at(b);
                for (int entry = tid; entry < block.nnz * (block.nnz + 1) / 2; entry += T) {
                    const int p = row_of[entry], q = entry - p * (p + 1) / 2;
                    const int i = dof_of(b, block, p), j = dof_of(b, block, q);
                    const float value = hessian[i * PITCH + j] + weigh(b, block, change, p, q);
                    hessian[i * PITCH + j] = hessian[j * PITCH + i] = value;
                }
                BLOCK_SYNC();
            }
        }
        BLOCK_SYNC();
    }
};

// gradient = M a - qfrc_smooth - J' force; gives its squared norm. Barriers in it and after it.
auto update_gradient = [&](const float* Ma, float* constraint) {
    for (int i = tid; i < TEAMS * NV; i += T) gathered[i / NV][i % NV] = 0.0f;
    BLOCK_SYNC();
    const int team = tid / LANES;
    for (int first = 0; first < blocks; first += TEAMS) {
        const int b = first + team;
        if (b < blocks) {
            const Block block = block_at(b);
            for (int p = tid % LANES; p < block.nnz; p += LANES)
                gathered[team][dof_of(b, block, p)] += weigh(b, block, forces, p, -1);
        }
        BLOCK_SYNC_WARP();
    }
    BLOCK_SYNC();
    float norm = 0.0f;
    each_dof([&](int own, int i) {
        constraint[own] = dry_row(i) >= 0 ? forces[dry_row(i)] : 0.0f;
        for (int each = 0; each < TEAMS; ++each) constraint[own] += gathered[each][i];
        gradient[i] = Ma[own] - smooth[i] - constraint[own];
        norm += gradient[i] * gradient[i];
    });
    sum(norm);
    return norm;
};

// search = -hessian^-1 gradient, and its squared norm; gives gradient' hessian^-1 gradient. Gauss and Jordan, two
// pivots a barrier, a row a thread, in registers; without a search for pivots, for the matrix is positive definite, and
// what it gives is no number where that does not hold.
// Rows move left as their columns are done: the loop's code stays short, which an instruction cache holds.
auto solve = [&](float& length) {
    float a[OWN][EVEN], right[OWN], inverse[OWN];
    bool definite = true;
    BLOCK_UNROLL
    for (int own = 0; own < OWN; ++own) {
        const int i = tid + own * T;
        right[own] = i < NV ? gradient[i] : 0.0f;
        inverse[own] = 0.0f;
        BLOCK_UNROLL
        for (int j = 0; j < EVEN; ++j) a[own][j] = i < NV && j < NV ? hessian[i * PITCH + j] : i == j ? 1.0f : 0.0f;
    }
    BLOCK_ROLLED
    for (int k = 0; k < EVEN; k += 2) {
        auto& c = pivot[k / 2 % 2];
        BLOCK_UNROLL
        for (int own = 0; own < OWN; ++own) {
            const int i = tid + own * T;
            if (i >= k && i < EVEN) c[0][i - k] = a[own][0], c[1][i - k] = a[own][1];
            if (i == k) c[0][EVEN] = right[own];
            if (i == k + 1) c[1][EVEN] = right[own];
        }
        BLOCK_SYNC();
        const float first = BLOCK_INVERSE(max(c[0][0], SMALL)), ratio = c[0][1] * first;
        const float rest = c[1][1] - ratio * c[0][1], second = BLOCK_INVERSE(max(rest, SMALL));
        definite = definite && c[0][0] > 0.0f && rest > 0.0f;
        BLOCK_UNROLL
        for (int own = 0; own < OWN; ++own) {
            const int i = tid + own * T;
            const float f = i == k ? 0.0f : a[own][0] * first;
            const float g = i == k + 1 ? 0.0f : (a[own][1] - f * c[0][1]) * second;
            const float h = f - g * ratio;
            inverse[own] = i == k ? first : i == k + 1 ? second : inverse[own];
            BLOCK_UNROLL
            for (int j = 2; j < EVEN; ++j) a[own][j - 2] = a[own][j] - h * c[0][j] - g * c[1][j];
            right[own] -= h * c[0][EVEN] + g * c[1][EVEN];
        }
    }
    float decrement = 0.0f;
    length = 0.0f;
    each_dof([&](int own, int i) {
        const float step = right[own] * inverse[own];
        search[i] = -step;
        decrement += step * gradient[i];
        length += step * step;
    });
    sum(decrement, length);
    return definite ? decrement : sqrtf(-1.0f);
};

// What a row is at x: on its parabola, or on a line of slope `loss` outside, or off.
enum { CONTACT, EQUALITY, DRY };
auto type_of = [&](int row) { return row >= linear ? CONTACT : row < equalities ? EQUALITY : DRY; };
auto is_quadratic = [&](int type, int row, float x, float d) {
    // What is no number counts, so that it shows.
    return type == CONTACT ? !(x >= 0.0f) : type == EQUALITY || !(fabsf(x * d) >= loss[row]);
};

// Put rows on their pieces and write their forces; says whether one of this thread's changed piece.
auto classify = [&]() {
    bool changed = false;
    BLOCK_ROLLED
    for (int row = tid; row < rows; row += T) {
        const int type = type_of(row);
        const float x = residual[row], d = curvature[row];
        const bool quadratic = is_quadratic(type, row, x, d);
        const int now = quadratic ? QUADRATIC : type != DRY ? SATISFIED : x < 0.0f ? LINEARNEG : LINEARPOS;
        change[row] = (quadratic ? d : 0.0f) - (kind[row] == QUADRATIC ? d : 0.0f);
        changed |= kind[row] != now;
        kind[row] = now;
        forces[row] = quadratic ? -d * x : type != DRY ? 0.0f : x < 0.0f ? loss[row] : -loss[row];
    }
    return changed;
};

// Slope and curvature of the cost at `alpha` of search; gauss: at 0, of this thread's share of the smooth part.
auto slope_along = [&](float alpha, float gauss_slope, float gauss_bend, float& bend) {
    float slope = gauss_slope + alpha * gauss_bend;
    bend = gauss_bend;
    BLOCK_ROLLED
    for (int row = tid; row < rows; row += T) {
        const int type = type_of(row);
        const float v = along[row], d = curvature[row], x = residual[row] + alpha * v;
        if (is_quadratic(type, row, x, d)) slope += v * d * x, bend += v * d * v;
        else if (type == DRY) slope += x > 0.0f ? v * loss[row] : -v * loss[row];
    }
    sum(slope, bend);
    return slope;
};

// How much less the cost is at `alpha` of search than at 0.
auto improvement_along = [&](float alpha, float gauss_slope, float gauss_bend) {
    float less = -alpha * (gauss_slope + 0.5f * alpha * gauss_bend);
    BLOCK_ROLLED
    for (int row = tid; row < rows; row += T) {
        const int type = type_of(row);
        const float from = residual[row], d = curvature[row], move = alpha * along[row], to = from + move;
        const bool before = is_quadratic(type, row, from, d), after = is_quadratic(type, row, to, d);
        const float half = type == DRY ? 0.5f * loss[row] / d : 0.0f;
        if (before && after) less -= move * d * (from + 0.5f * move);
        else if (before || after || type == DRY) {
            less += before ? 0.5f * d * from * from : type == DRY ? loss[row] * (fabsf(from) - half) : 0.0f;
            less -= after ? 0.5f * d * to * to : type == DRY ? loss[row] * (fabsf(to) - half) : 0.0f;
        }
    }
    sum(less);
    return less;
};

// How far to go along search: Newton on the slope, which rises, kept between its last two signs. It starts from
// 0, where slope and curvature are minus and plus the decrement.
auto line_search = [&](float decrement, float gauss_slope, float gauss_bend, float slope_tol) {
    float slope = -decrement, bend = decrement, below = 0.0f, above = 0.0f, alpha = 0.0f;
    bool bounded = false;
    for (int count = 0; count < LINE_ITERATIONS && fabsf(slope) >= slope_tol; ++count) {
        if (slope < 0.0f) below = alpha;
        else above = alpha, bounded = true;
        float next = alpha - slope / max(bend, SMALL);
        if (bounded && !(next > below && next < above)) next = 0.5f * (below + above);
        if (fabsf(next - alpha) <= LINE_TOL * alpha) break;
        alpha = next;
        slope = slope_along(alpha, gauss_slope, gauss_bend, bend);
    }
    return alpha;
};

auto inertia_times_search = [&](int i) {
    float value = 0.0f;
    BLOCK_UNROLL
    for (int j = 0; j < NV; ++j) value += inertia[i * PITCH + j] * search[j];
    return value;
};

float a[OWN], Ma[OWN], constraint[OWN], trace = 0.0f;
each_dof([&](int own, int i) {
    a[own] = Ma[own] = 0.0f;
    search[i] = of_world(engine.qacc_warmstart)[i];
    for (int j = 0; j <= i; ++j) row_of[i * (i + 1) / 2 + j] = i;
    trace += of_world(engine.M)[engine.M_elemid.data[i * NV + i]];
});
for (int b = tid; b < min(blocks, STAGED); b += T) held[b] = read_block(b);
for (int row = tid; row < rows; row += T) {
    kind[row] = UNKNOWN;
    residual[row] = -of_world(engine.aref)[row];
    curvature[row] = of_world(engine.D)[row];
}
sum(trace);
const float scale = 1.0f / max(trace, SMALL);
for (int entry = tid; entry < TRIANGLE; entry += T) {
    const int i = row_of[entry], j = entry - i * (i + 1) / 2, from = engine.M_elemid.data[i * NV + j];
    const float value = from >= 0 ? of_world(engine.M)[from] : 0.0f;
    inertia[i * PITCH + j] = inertia[j * PITCH + i] = hessian[i * PITCH + j] = hessian[j * PITCH + i] = value;
}
for (int entry = tid; entry < min(blocks, STAGED) * SUPPORT; entry += T) {
    const int b = entry / SUPPORT, p = entry % SUPPORT;
    const Block block = held[b];
    if (!is_held(b, block) || p >= block.nnz) continue;
    held_dof[entry] = J_dof[block.adr + p];
    BLOCK_UNROLL
    for (int m = 0; m < 4; ++m)
        held_J[entry].row[m] = block.head + m < block.end ? J[block.adr + m * block.nnz + p] : 0.0f;
}
BLOCK_SYNC();

// The first pass takes the whole way from 0 to the warm start; each later one is an iteration.
int iteration = 0;
for (float length = 0.0f, decrement = 0.0f;; ++iteration) {
    float product[OWN], gauss_slope = 0.0f, gauss_bend = 0.0f, alpha = 1.0f, improvement = 0.0f;
    each_dof([&](int own, int i) {
        product[own] = inertia_times_search(i);
        gauss_slope += search[i] * (Ma[own] - smooth[i]);
        gauss_bend += search[i] * product[own];
    });
    multiply_rows();
    BLOCK_SYNC();
    if (iteration > 0) {
        const float slope_tol = max(tol * setting(engine.ls_tolerance) * sqrtf(length) / scale, LINE_TOL * decrement);
        alpha = line_search(decrement, gauss_slope, gauss_bend, slope_tol);
        improvement = improvement_along(alpha, gauss_slope, gauss_bend);
        if (!(improvement > 0.0f)) alpha = 0.0f;
    }
    each_dof([&](int own, int i) { a[own] += alpha * search[i], Ma[own] += alpha * product[own]; });
    BLOCK_ROLLED
    for (int row = tid; row < rows; row += T) residual[row] += alpha * along[row];
    const bool changed = BLOCK_ANY(classify());
    const float norm = update_gradient(Ma, constraint);
    if (iteration > 0 && (alpha == 0.0f || scale * improvement < tol || scale * sqrtf(norm) < tol)) break;
    if (iteration == ITERATIONS) break;
    if (changed) update_hessian();
    decrement = solve(length);
    // Not finite, or not positive definite: say so in all that integrators start from.
    if (!(norm + fabsf(decrement) < 1e30f)) {
        for (int own = 0; own < OWN; ++own) a[own] = Ma[own] = constraint[own] = sqrtf(-1.0f);
        break;
    }
    if (iteration > 0 && 0.5f * scale * decrement < tol) break;
}

each_dof([&](int own, int i) {
    of_world(engine.qacc)[i] = a[own];
    of_world(engine.Ma)[i] = Ma[own];
    of_world(engine.qfrc_constraint)[i] = constraint[own];
});
for (int row = tid; row < rows; row += T) {
    of_world(engine.force)[row] = forces[row];
    of_world(engine.state)[row] = kind[row];
}
if (tid == 0) engine.solver_niter.data[world] = iteration;
